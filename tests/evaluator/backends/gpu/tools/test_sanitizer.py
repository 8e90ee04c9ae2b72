"""What compute-sanitizer really said of kernels of tests/adversarial, on an H200, as facts."""

import json
from pathlib import Path

import pytest

from evaluator.backends.gpu.tools.sanitizer import TOOLS, options, parse_findings
from evaluator.backends.session import Buffer, Entry, PlanRun, Program

HERE = Path(__file__).parent
KERNELS = json.loads((HERE / "sanitizer_reports.json").read_text(encoding="utf-8"))["kernels"]
ADVERSARIAL = HERE.parents[3] / "adversarial"


def found(name, ptx=""):
    kernel = KERNELS[name]
    entries = tuple(Entry(symbol, demangled, ()) for symbol, demangled in kernel["symbols"].items())
    runs = [
        PlanRun(tuple(Buffer(n, "input", size, item, None) for n, size, item in run), (), 0xFF, 1.0)
        for run in kernel["buffers"]
    ]
    return [
        finding
        for tool, said in kernel["reports"].items()
        for finding in parse_findings(tool, said["report"], said["addresses"], Program(ptx, entries, "sm_90a"), runs)
    ]


@pytest.mark.parametrize(
    ("name", "kind", "message", "kernel", "line"),
    [
        ("write_one_past_the_end", "out_of_bounds", "wrote c[1], one past the end", "add", 13),
        ("read_one_past_the_end", "out_of_bounds", "read x[1], one past the end", "scan", 11),
        ("negative_index", "out_of_bounds", "wrote y[-1], before its start", "transpose", 13),
        ("misaligned_vector", "misaligned", "read x[6241], 4 bytes behind a multiple of 16", "relu", 12),
        ("shared_out_of_bounds", "out_of_bounds", "wrote shared memory[1280], past the end", "sums", 15),
        ("null_pointer", "null", "wrote address 0x0, a null pointer", "gelu", 13),
        (
            "wild_pointer",
            "out_of_bounds",
            "wrote address 0x7f0000000000, which belongs to no buffer",
            "scale",
            12,
        ),
    ],
)
def test_a_bad_access_is_certain_and_named_as_the_simulator_names_it(name, kind, message, kernel, line):
    first = found(name)[0]
    assert first.certain
    fault = first.fault
    assert (fault.kind, fault.message, fault.kernel, fault.line) == (kind, message, kernel, line)
    assert fault.thread is not None
    assert fault.block is not None
    source = (ADVERSARIAL / f"{name}.cu").read_text(encoding="utf-8").splitlines()
    assert source[line - 1].endswith("// HERE")


def test_the_run_is_told_by_the_address():
    assert [finding.run for finding in found("misaligned_vector")] == [1, 1]
    assert found("null_pointer")[0].run is None


def test_a_race_names_both_lines():
    first = found("race_without_barrier")[0]
    assert first.certain
    assert first.fault.kind == "race"
    assert (first.fault.kernel, first.fault.line) == ("transpose", 11)
    assert first.fault.message == (
        "writes shared memory on line 11, and another thread of the same block reads it on line 14, with nothing in "
        "between that orders the two"
    )


def test_what_the_tool_only_warns_of_is_not_certain():
    levels = {finding.certain for finding in found("race_second_barrier_missing")}
    assert levels == {True, False}, "its two tiles race between warps, and within one warp"


@pytest.mark.parametrize(
    "beyond",
    [
        "mbarrier.init.shared.b64 [%r1], 1;",
        "barrier.cluster.arrive;",
        "wgmma.fence.sync.aligned;",
        "membar.cta;",
        "fence.acq_rel.cta;",
        "barrier.cta.arrive 1, 64;",
        "bar.arrive 1, 64;",
        "st.volatile.shared.u32 [%r1], %r2;",
        "ld.acquire.cta.shared.s32 %r1, [%r2];",
        "atom.add.release.cta.u64 %rd1, [%rd2], 1;",
        "red.and.release.cta.b32 [%rd1], %r2;",
    ],
)
def test_no_race_is_certain_where_racecheck_cannot_follow(beyond):
    assert not any(finding.certain for finding in found("race_without_barrier", ptx=beyond))


@pytest.mark.parametrize(
    "within", ["bar.sync 0;", "barrier.cta.sync 1, 64;", "bar.warp.sync -1;", "st.shared.u32 [%r1], %r2;"]
)
def test_a_race_beside_barriers_is_certain(within):
    assert any(finding.certain for finding in found("race_without_barrier", ptx=within))


@pytest.mark.parametrize(
    ("name", "message", "kernel", "line"),
    [
        # A read within the toolkit's own function has no line of the submission.
        ("output_not_zeroed", "reads total[0], which was never written", "add_up", None),
        ("race_between_blocks", "reads partial[0] on line 16, which was never written", "sum", 16),
    ],
)
def test_a_read_of_undefined_memory_is_a_hint(name, message, kernel, line):
    first = found(name)[0]
    assert not first.certain
    assert (first.fault.kind, first.fault.message) == ("undefined_read", message)
    assert (first.fault.kernel, first.fault.line) == (kernel, line)


@pytest.mark.parametrize(("name", "kind"), [("trap", "trap"), ("assert_fails", "assert")])
def test_a_kernel_that_stops_itself(name, kind):
    first = found(name)[0]
    assert (first.certain, first.fault.kind, first.fault.line) == (True, kind, None)
    assert first.fault.thread is not None


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    "report",
    [
        "",
        "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n",
        "========= COMPUTE-SANITIZER\n========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n",
        "========= Invalid __global__ write of size 4 bytes\n",
        "========= Error: Race reported between Write access at k()+0x10 in kernel.cu:3\n",
    ],
)
def test_reports_that_end_early_are_read(tool, report):
    findings = list(parse_findings(tool, report, [], Program("", (), "sm_90a"), []))
    assert len(findings) == (0 if "SUMMARY" in report or not report else 1)
    assert all(finding.fault.thread is None for finding in findings)


def test_each_tool_writes_its_report_to_a_file():
    for tool in TOOLS:
        called = options(tool)
        assert called[:2] == ("--tool", tool)
        assert called[called.index("--log-file") + 1] == "report"
