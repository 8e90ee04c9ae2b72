"""A program under a tool: the real watched process in a real sandbox, on a device that needs no GPU."""

import os
import stat

import numpy as np
import pytest
from stand_in import program

from evaluator.backends.gpu.tools import launch as instruments
from evaluator.backends.gpu.tools.launch import ToolMissingError, ToolRunner, find_tool, why_no_counters
from evaluator.backends.session import Buffer, BufferCopy, BufferFill, KernelLaunch, PlanRun, Pointer
from evaluator.sandbox import selftest

# A tool that reports how it was called, and runs what it was given to run.
TOOL = """#!/bin/sh
echo "called with $1 $2" > report
shift 2
exec "$@"
"""


@pytest.fixture
def tool(tmp_path, monkeypatch):
    path = tmp_path / "tool" / "compute-sanitizer"
    path.parent.mkdir()
    path.write_text(TOOL)
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    tmp_path.chmod(0o755)
    monkeypatch.setenv("ASSAY_COMPUTE_SANITIZER", str(path))
    return path


@pytest.fixture
def tool_runner(tmp_path):
    (tmp_path / "work").mkdir()
    return ToolRunner(selftest.choose(tmp_path / "work"), "none", "stand_in_device:LoneStandIn")


def plan(count=1000, steps=None):
    x = np.linspace(-1, 1, count, dtype=np.float32)
    buffers = (
        Buffer("x", "input", 4 * count, 4, x),
        Buffer("y", "output", 4 * count, 4, None),
    )
    arguments = (Pointer("x"), Pointer("y"), count.to_bytes(4, "little"))
    launch = KernelLaunch("k", (4, 1, 1), (256, 1, 1), 0, False, arguments)
    return PlanRun(buffers, steps or (launch,), 0xFF, 5.0)


def watched(tool_runner, deed, runs, limit_s=30.0):
    return tool_runner.watch("compute-sanitizer", ("--tool", "memcheck"), program(deed), runs, 0xFF, limit_s)


def test_all_runs_end_and_every_buffer_has_an_address_of_its_own(tool, tool_runner):
    fill, copy = BufferFill("y", b"\0\0\0\0"), BufferCopy("x", "y")
    found = watched(tool_runner, "relu", [plan(), plan(33), plan(7, (fill, copy))])
    assert found.report == "called with --tool memcheck\n", found.said
    assert found.ended == 3
    assert found.fault is None
    assert [len(addresses) for addresses in found.addresses] == [2, 2, 2]
    assert len({address for addresses in found.addresses for address in addresses}) == 6


def test_a_fault_names_itself_and_the_run_it_came_in(tool, tool_runner):
    found = watched(tool_runner, "fault", [plan(), plan(33)])
    assert found.fault == "CUDA_ERROR_ILLEGAL_ADDRESS"
    assert found.ended == 0
    assert len(found.addresses) == 1, "the run that faulted, and none after it"


def test_what_a_kernel_prints_is_no_report(tool, tool_runner):
    found = watched(tool_runner, "print", [plan()])
    assert "hello from the device" in found.said
    assert "hello" not in found.report


def test_a_program_that_destroys_its_process_leaves_what_was_told_before(tool, tool_runner):
    found = watched(tool_runner, "die", [plan()])
    assert (found.ended, found.fault, len(found.addresses)) == (0, None, 1)


def test_a_program_that_never_ends_is_ended(tool, tool_runner):
    found = watched(tool_runner, "hang", [plan()], limit_s=2.0)
    assert found.timed_out
    assert found.ended == 0


def test_a_tool_that_is_not_there_is_named_with_its_remedy(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_NCU", str(tmp_path / "no-ncu"))
    with pytest.raises(ToolMissingError, match="there is no ncu on this machine") as refused:
        find_tool("ncu")
    assert "ASSAY_NCU" in refused.value.remedy


def test_of_an_installation_the_program_behind_the_script_is_taken(tmp_path, monkeypatch):
    monkeypatch.delenv("ASSAY_NCU", raising=False)
    for place in (
        "ncu",
        f"target/linux-desktop-glibc_2_11_3-{'x64' if os.uname().machine == 'x86_64' else 'a64'}/ncu",
    ):
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_tool("ncu") == path
    assert instruments._installed_under(path) == (tmp_path,)


def test_a_driver_that_keeps_its_counters_to_root_is_told_with_the_remedy(tmp_path):
    params = tmp_path / "proc/driver/nvidia/params"
    params.parent.mkdir(parents=True)
    params.write_text("ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\n")
    refused = why_no_counters(tmp_path)
    assert "ERR_NVGPUCTRPERM" in str(refused)
    assert "NVreg_RestrictProfilingToAdminUsers=0" in refused.remedy
    params.write_text("RmProfilingAdminOnly: 0\n")
    assert why_no_counters(tmp_path) is None
    assert why_no_counters(tmp_path / "elsewhere") is None
