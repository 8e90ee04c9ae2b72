"""What ncu really said of kernels on an H200, as counts; and the profiler's flow with a stand-in for the tool."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from stand_in import program, relu_plan

from common.contract import Settings
from evaluator.backends.gpu.tools import nsight
from evaluator.backends.gpu.tools.launch import ToolRun, ToolRunner
from evaluator.backends.gpu.tools.nsight import (
    Profiler,
    absent_metrics,
    class_of,
    has_half_arithmetic,
    launch_counts,
    parse_report,
    refusal,
)
from evaluator.backends.session import KernelLaunch
from evaluator.problems.arrays import NumpyRng
from evaluator.sandbox import selftest
from evaluator.stages.profile.gpu_counters import count

RESULTS = Path(__file__).parents[5] / "benchmarks" / "results" / "counters_ncu.json"
REPORTS = json.loads(RESULTS.read_text(encoding="utf-8"))["reports"]


def counted(name, halves=False):
    return [
        launch_counts(row, "k", KernelLaunch(row.symbol, row.grid, row.block, 0, False, ()), 0, halves)
        for row in parse_report(REPORTS[name]["report"])
    ]


@pytest.mark.parametrize("name", REPORTS)
def test_every_instruction_has_a_class(name):
    for one in counted(name, halves=True):
        # Spinning kernels do not take as many turns in each of the profiler's passes.
        close = {"rel": 0.1} if name in ("reduce_sum_grid_sync", "relu_bulk_copy") else {"rel": 0}
        assert sum(one.by_class.values()) == pytest.approx(one.warp_instructions, **close)
        assert one.by_class.get("other", 0) == 0
        assert one.lane_efficiency <= 1


def test_an_addition_of_vectors():
    (one,) = counted("vector_add_plain")
    n = 262144
    assert (one.grid, one.block, one.counted_blocks) == ((n // 256, 1, 1), (256, 1, 1), n // 256)
    assert (one.loads.requests, one.loads.sectors, one.loads.useful_bytes) == (2 * n // 32, 2 * n // 8, 8 * n)
    assert (one.stores.requests, one.stores.sectors, one.stores.useful_bytes) == (n // 32, n // 8, 4 * n)
    assert one.flops == {"fp32": n}
    assert one.memory_efficiency == 1
    reading = one.reading
    assert 0 < reading.latency_us < 100
    assert all(0 < getattr(reading, share) <= 1 for share in nsight._SHARES)


def test_scattered_writes_and_bank_conflicts():
    assert counted("naive/transpose")[0].memory_efficiency < 0.25
    (conflicts,), (padded,) = counted("bank_conflicts"), counted("transpose_padded_tile")
    assert conflicts.shared.least_wavefronts == padded.shared.least_wavefronts == 16384
    assert conflicts.bank_conflict_ways == (32 + 1) / 2
    assert padded.bank_conflict_ways == 1


def test_copies_past_the_registers_are_loads():
    (one,) = counted("saxpy_cp_async")
    assert one.loads.useful_bytes == 8 * 262144
    assert one.memory_efficiency == 1


def test_matrix_products_and_halves():
    (tensor,) = counted("matmul_f16_mma", halves=True)
    assert tensor.flops == {"tensor": 2 * 128**3}
    (transposed,) = counted("naive/transpose")
    assert "fp16" not in transposed.by_class
    assert transposed.flops.get("fp16", 0) == 0, "its HFMA2 load a constant"


def test_atomics_are_no_accesses():
    (one,) = counted("histogram_shared_atomics")
    assert (one.atomics.requests, one.atomics.operations) == (262144 // 32 + 64 * 8, 262144 + 64 * 256)
    assert (one.shared.requests, one.shared.wavefronts, one.shared.least_wavefronts) == (1024, 1024, 1024)


@pytest.mark.parametrize(
    ("ptx", "halves"),
    [
        ("fma.rn.f16x2 %r1, %r2, %r3, %r4;", True),
        ("@%p1 add.rn.bf16 %h1, %h2, %h3;", True),
        ("{add.f16 %h1,%h2,%h3;\n}", True),
        ("cvt.f32.f16 %f1, %h1;", False),
        ("ld.global.nc.u16 %h1, [%rd1];\nfma.rn.f32 %f1, %f2, %f3, %f4;", False),
    ],
)
def test_whether_a_program_computes_with_halves(ptx, halves):
    assert has_half_arithmetic(ptx) is halves


@pytest.mark.parametrize(
    ("opcode", "kind"),
    [
        *(("FFMA", "fp32"), ("IMAD.MOV.U32", "move"), ("IMAD.WIDE", "integer"), ("HADD2.F32", "conversion")),
        *(("HFMA2.MMA", "fp16"), ("HMMA.16816.F32", "tensor"), ("LDGSTS.E", "global"), ("LDG.E.U16", "global")),
        *(("LDS.64", "shared"), ("LDGDEPBAR", "barrier"), ("ATOMS.POPC.INC.32", "atomic"), ("REDG.E.ADD", "atomic")),
        *(("MUFU.RCP", "special"), ("F2FP.F16.F32.PACK_AB", "conversion"), ("UIMAD.WIDE", "integer")),
        *(("ISETP.GE.AND", "integer"), ("BRA", "control"), ("STL", "local"), ("ULDC.64", "constant")),
    ],
)
def test_classes_of_opcodes(opcode, kind):
    assert class_of(opcode) == kind


def test_why_there_are_no_counts():
    def said(report="", timed_out=False, fault=None):
        return refusal(ToolRun(report, "", (), 0, fault, timed_out, 1.0))

    permission = said("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU")
    assert "ERR_NVGPUCTRPERM" in str(permission)
    assert "NVreg_RestrictProfilingToAdminUsers=0" in permission.remedy
    assert "60 s" in str(said("==PROF== Connected to process 10", timed_out=True))
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in str(said(fault="CUDA_ERROR_ILLEGAL_ADDRESS"))
    assert "No kernels were profiled" in str(said("==PROF== Connected\n==WARNING== No kernels were profiled."))
    assert parse_report("") == parse_report("==PROF== Connected to process 10\n") == []


def test_names_that_ncu_does_not_know():
    first, second = nsight.METRICS[0], nsight.METRICS[1]
    assert absent_metrics(f"==ERROR== Failed to find metric {first}\n") == {first}
    assert absent_metrics(f"==WARNING== Note: {second}\n") == set()


@pytest.fixture
def profiled(tmp_path, monkeypatch):
    """`profiled(text)`: what the stage makes of a program of which ncu says `text`."""

    def run(text):
        path = tmp_path / "tool" / "ncu"
        path.parent.mkdir()
        path.write_text(
            f"#!/bin/sh\ncat > report <<'END'\n{text}END\n"
            f'while [ "$1" != {sys.executable} ]; do shift; done\nexec "$@"\n'
        )
        path.chmod(0o755)
        tmp_path.chmod(0o755)
        monkeypatch.setenv("ASSAY_NCU", str(path))
        (tmp_path / "work").mkdir()
        tool_runner = ToolRunner(selftest.choose(tmp_path / "work"), "none", "stand_in_device:LoneStandIn")
        settings = Settings(sizes={"n": 262144})
        made = program("relu")
        rng = NumpyRng(np.random.default_rng(1))
        shared = {"k(float const*, float*, int)": 64}
        return count(relu_plan(made), made, shared, settings.sizes, settings, rng, Profiler(tool_runner))

    return run


def test_the_counts_of_a_launch(profiled):
    report = REPORTS["vector_add_plain"]["report"].replace("_Z10add_kernelPfS_S_i", "k")
    found = profiled(report)
    (launch,) = found.evidence.launches
    assert found.evidence.source == "ncu"
    assert (launch.kernel, launch.grid, launch.shared_bytes) == ("k", (1024, 1, 1), 64)
    assert launch.loads.requests == 16384


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM\n", "may not read the GPU's performance counters"),
        ("==PROF== Connected\n==WARNING== No kernels were profiled.\n", "No kernels were profiled"),
        (REPORTS["vector_add_plain"]["report"], "ncu gave no counts"),
    ],
)
def test_a_profiler_that_fails_is_held_against_nobody(profiled, report, words):
    found = profiled(report)
    assert found.evidence is None
    (said,) = found.not_measured
    assert said.startswith("GPU counters: ")
    assert words in said
