"""Hostile requests: launch plans, sizes, settings and texts that nobody should be able to hurt the grader with."""

import time
from collections.abc import Callable

import pytest
from pydantic import ValidationError

from common.contract import MAX_SOURCE_BYTES, Phase, Settings, Status, Submission
from common.launch_plan import LaunchPlan
from evaluator.errors import UsageError
from evaluator.pipeline.pipeline import evaluate

KERNEL = """
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
__device__ void not_a_kernel(float* c) { c[0] = 0.0f; }
__global__ void scale(float* c, float factor, short n) { if (threadIdx.x < n) c[threadIdx.x] *= factor; }
"""
GOOD = "// assay: launch add grid=(ceil_div(n, 256)) block=(256) args=(a, b, c, n)"
LAUNCH = {
    "kind": "launch",
    "kernel": "add",
    "grid": ["ceil_div(n, 256)"],
    "block": [256],
    "args": ["a", "b", "c", "n"],
}


def launch(**changes: object) -> dict[str, object]:
    return {**LAUNCH, **changes}


def graded(toolbox, source: str, **fields: object):
    started = time.monotonic()
    verdict = evaluate(
        Submission(problem="vector_add", source=source, **{"settings": Settings(verification="quick"), **fields}),
        toolbox,
    )
    assert time.monotonic() - started < 60
    return verdict


def test_the_plan_that_the_others_are_variations_of_passes(toolbox):
    assert graded(toolbox, f"{GOOD}\n{KERNEL}").status is Status.PASSED
    plan = LaunchPlan.model_validate({"steps": [LAUNCH]})
    assert graded(toolbox, KERNEL, plan=plan).status is Status.PASSED


DIRECTIVES = {
    "grid of zero": "// assay: launch add grid=(0) block=(256) args=(a, b, c, n)",
    "grid of zero at one size": "// assay: launch add grid=(n // 2) block=(256) args=(a, b, c, n)",
    "negative grid": "// assay: launch add grid=(-1) block=(256) args=(a, b, c, n)",
    "grid beyond 2**31": "// assay: launch add grid=(2147483648) block=(1) args=(a, b, c, n)",
    "second extent beyond 65535": "// assay: launch add grid=(1, 65536) block=(1) args=(a, b, c, n)",
    "four extents": "// assay: launch add grid=(1, 1, 1, 1) block=(256) args=(a, b, c, n)",
    "block of 1025": "// assay: launch add grid=(1) block=(1025) args=(a, b, c, n)",
    "block of 33 x 32": "// assay: launch add grid=(1) block=(33, 32) args=(a, b, c, n)",
    "block of 65 in depth": "// assay: launch add grid=(1) block=(1, 1, 65) args=(a, b, c, n)",
    "block of zero": "// assay: launch add grid=(1) block=(0) args=(a, b, c, n)",
    "shared beyond the hardware": "// assay: launch add grid=(1) block=(32) shared=1048576 args=(a, b, c, n)",
    "negative shared": "// assay: launch add grid=(1) block=(32) shared=-4 args=(a, b, c, n)",
    "unknown kernel": "// assay: launch subtract grid=(1) block=(32) args=(a, b, c, n)",
    "device function": "// assay: launch not_a_kernel grid=(1) block=(32) args=(c)",
    "too few arguments": "// assay: launch add grid=(1) block=(32) args=(a, b, c)",
    "too many arguments": "// assay: launch add grid=(1) block=(32) args=(a, b, c, n, n)",
    "no arguments": "// assay: launch add grid=(1) block=(32) args=()",
    "size for a pointer": "// assay: launch add grid=(1) block=(32) args=(a, b, n, n)",
    "number for a pointer": "// assay: launch add grid=(1) block=(32) args=(a, b, 140737488355328, n)",
    "tensor for a size": "// assay: launch add grid=(1) block=(32) args=(a, b, c, c)",
    "unknown argument": "// assay: launch add grid=(1) block=(32) args=(a, b, secret, n)",
    "argument beyond int": "// assay: launch add grid=(1) block=(32) args=(a, b, c, n + 4294967296)",
    "argument beyond short": f"{GOOD}\n// assay: launch scale grid=(1) block=(32) args=(c, 1.0, 32768)",
    "tensor as an extent": "// assay: launch add grid=(a) block=(32) args=(a, b, c, n)",
    "division by zero": "// assay: launch add grid=(n // (n - n)) block=(32) args=(a, b, c, n)",
    "remainder by zero": "// assay: launch add grid=(n % 0) block=(32) args=(a, b, c, n)",
    "ceil_div by zero": "// assay: launch add grid=(ceil_div(n, 0)) block=(32) args=(a, b, c, n)",
    "real division": "// assay: launch add grid=(n / 256) block=(32) args=(a, b, c, n)",
    "tower of powers": "// assay: launch add grid=(9**9**9) block=(32) args=(a, b, c, n)",
    "product beyond 2**63": "// assay: launch add grid=(4000000000 * 4000000000) block=(32) args=(a, b, c, n)",
    "endless expression": f"// assay: launch add grid=({'1+' * 5000}1) block=(32) args=(a, b, c, n)",
    "deep expression": f"// assay: launch add grid=({'(' * 100}1{')' * 100}) block=(32) args=(a, b, c, n)",
    "python in an expression": "// assay: launch add grid=(__import__('os').getpid()) block=(32) args=(a, b, c, n)",
    "attribute in an expression": "// assay: launch add grid=(n.__class__) block=(32) args=(a, b, c, n)",
    "unknown function": "// assay: launch add grid=(pow(9, 9)) block=(32) args=(a, b, c, n)",
    "float extent": "// assay: launch add grid=(1e3) block=(32) args=(a, b, c, n)",
    "missing bracket": "// assay: launch add grid=(1 block=(32) args=(a, b, c, n)",
    "missing grid": "// assay: launch add block=(32) args=(a, b, c, n)",
    "grid twice": "// assay: launch add grid=(1) grid=(2) block=(32) args=(a, b, c, n)",
    "unknown field": "// assay: launch add grid=(1) block=(32) priority=9 args=(a, b, c, n)",
    "unknown directive": f"{GOOD}\n// assay: reward 2.0",
    "empty directive": f"{GOOD}\n// assay:",
    "verdict as a directive": f'{GOOD}\n// assay: {{"status": "passed"}}',
    "fill of an input": f"// assay: fill a value=0\n{GOOD}",
    "copy to an input": f"// assay: copy b a\n{GOOD}",
    "copy of unequal sizes": f"// assay: temp t float32 (n + 1)\n// assay: copy t c\n{GOOD}",
    "fill beyond the type": f"// assay: temp t uint8 (n)\n// assay: fill t value=256\n{GOOD}",
    "temporary named like a tensor": f"// assay: temp a float32 (n)\n{GOOD}",
    "temporary twice": f"// assay: temp t float32 (n)\n// assay: temp t float32 (n)\n{GOOD}",
    "temporary of an unknown type": f"// assay: temp t float8 (n)\n{GOOD}",
    "temporary of no extent": f"// assay: temp t float32 (0)\n{GOOD}",
    "temporary of a petabyte": f"// assay: temp t float32 (1000000000000000)\n{GOOD}",
    "temporaries that overflow": f"// assay: temp t float64 (3000000000, 3000000000)\n{GOOD}",
    "temporaries alone": "// assay: temp t float32 (n)",
    "257 launches": "\n".join([GOOD] * 257),
    "257 temporaries": "\n".join([*(f"// assay: temp t{i} float32 (1)" for i in range(257)), GOOD]),
}


@pytest.mark.parametrize("directives", DIRECTIVES.values(), ids=DIRECTIVES)
def test_a_plan_that_cannot_be_is_an_invalid_submission(directives, toolbox):
    verdict = graded(toolbox, f"{directives}\n{KERNEL}")
    assert verdict.status is Status.INVALID_SUBMISSION, f"{verdict.status}: {verdict.message}"
    assert len(verdict.message) > 15
    assert "Traceback" not in verdict.message


def test_a_wrong_expression_is_shown_with_a_caret(toolbox):
    verdict = graded(toolbox, f"// assay: launch add grid=(n / 256) block=(32) args=(a, b, c, n)\n{KERNEL}")
    assert "^" in verdict.message + (verdict.hint or "")
    assert "//" in verdict.message + (verdict.hint or "")


PLANS: dict[str, dict[str, object]] = {
    "grid of zero": {"steps": [launch(grid=[0])]},
    "block beyond the hardware": {"steps": [launch(block=[4096])]},
    "unknown kernel": {"steps": [launch(kernel="system")]},
    "kernel by a path": {"steps": [launch(kernel="../../etc/passwd")]},
    "float for an int": {"steps": [launch(args=["a", "b", "c", 0.5])]},
    "negative shared memory": {"steps": [launch(shared_bytes=-1)]},
    "temporary of a petabyte": {
        "temporaries": [{"name": "t", "dtype": "float32", "shape": [1 << 40, 1 << 10]}],
        "steps": [LAUNCH],
    },
    "temporary that shadows a size": {
        "temporaries": [{"name": "n", "dtype": "float32", "shape": [1]}],
        "steps": [LAUNCH],
    },
    "copy to an input": {"steps": [{"kind": "copy", "source": "b", "target": "a"}, LAUNCH]},
    "fill of an unknown name": {"steps": [{"kind": "fill", "target": "verdict", "value": 1}, LAUNCH]},
    "fill with more than the type holds": {"steps": [{"kind": "fill", "target": "c", "value": 10**400}, LAUNCH]},
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_json_plan_that_cannot_be_is_an_invalid_submission(plan, toolbox):
    verdict = graded(toolbox, KERNEL, plan=LaunchPlan.model_validate(plan))
    assert verdict.status is Status.INVALID_SUBMISSION, f"{verdict.status}: {verdict.message}"


REFUSED: dict[str, dict[str, object]] = {
    "no steps": {"steps": []},
    "257 steps": {"steps": [LAUNCH] * 257},
    "unknown field": {"steps": [launch(stream=7)]},
    "unknown step": {"steps": [{"kind": "host", "code": "import os"}]},
    "four extents": {"steps": [launch(grid=[1, 1, 1, 1])]},
    "boolean extent": {"steps": [launch(grid=[True])]},
    "argument that is no expression": {"steps": [launch(args=["a", "b", "c", "n; DROP TABLE evaluations"])]},
    "nested arguments": {"steps": [launch(args=[["a"]])]},
    "expression too long": {"steps": [launch(grid=["1+" * 200 + "1"])]},
    "odd name of a temporary": {
        "temporaries": [{"name": "t; rm -rf /", "dtype": "float32", "shape": [1]}],
        "steps": [LAUNCH],
    },
}


@pytest.mark.parametrize("plan", REFUSED.values(), ids=REFUSED)
def test_a_plan_of_the_wrong_form_does_not_get_in(plan):
    with pytest.raises(ValidationError):
        LaunchPlan.model_validate(plan)


def test_directives_and_a_json_plan_together_are_refused(toolbox):
    verdict = graded(toolbox, f"{GOOD}\n{KERNEL}", plan=LaunchPlan.model_validate({"steps": [LAUNCH]}))
    assert verdict.status is Status.INVALID_SUBMISSION


TEXTS: dict[str, str] = {
    "nothing": "",
    "blanks": " \n\t\n" * 50,
    "no kernel": "__device__ float twice(float x) { return 2.0f * x; }\n",
    "two kernels and no plan": KERNEL,
    "more bytes than characters": f"// {'é' * (MAX_SOURCE_BYTES * 3 // 4)}\n{KERNEL}",
    "5 MB": f"// {'x' * (5 << 20)}\n{KERNEL}",
    "zero bytes": f"{GOOD}\n{KERNEL}\x00\x00 __global__ void hidden() {{}}\n",
}


@pytest.mark.parametrize("source", TEXTS.values(), ids=TEXTS)
def test_a_text_that_cannot_be_graded_is_an_invalid_submission(source, toolbox):
    verdict = graded(toolbox, source)
    assert verdict.status is Status.INVALID_SUBMISSION, f"{verdict.status}: {verdict.message}"
    assert verdict.phase in (Phase.SCREEN, Phase.COMPILE, Phase.LAUNCH)
    assert verdict.hint


@pytest.mark.parametrize(
    "build",
    [
        lambda: Submission(problem="vector_add", source="// \ud800 half a character"),
        lambda: Submission(problem="", source=KERNEL),
        lambda: Submission(problem="vector_add" * 20, source=KERNEL),
        lambda: Submission.model_validate({"problem": "vector_add", "source": KERNEL, "status": "passed"}),
        lambda: Submission.model_validate({"problem": "vector_add", "source": KERNEL, "backend": "host"}),
        lambda: Submission.model_validate_json(b'{"problem": "vector_add", "source": "\xff\xfe"}'),
        lambda: Submission.model_validate_json(b'{"problem": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        lambda: Settings(run_timeout_s=3600),
        lambda: Settings(run_timeout_s=float("nan")),
        lambda: Settings(memory_bytes=1 << 50),
        lambda: Settings(arch="sm_80; rm -rf /"),
        lambda: Settings(flags=("-O3",) * 17),
    ],
    ids=[
        "lone surrogate",
        "no problem",
        "long problem",
        "verdict in the request",
        "unknown backend",
        "not UTF-8",
        "deeply nested",
        "an hour",
        "time that is not a number",
        "a petabyte",
        "shell in the architecture",
        "too many flags",
    ],
)
def test_a_request_of_the_wrong_form_does_not_get_in(build: Callable[[], object]):
    with pytest.raises(ValidationError):
        build()


@pytest.mark.parametrize(
    "flag",
    [
        "-run",
        "--compiler-bindir=/tmp",
        "-I/etc",
        "-Xcompiler=-fplugin=/x.so",
        "@/etc/passwd",
        "-o/tmp/x",
        "-rdc=true",
    ],
)
def test_a_compiler_flag_that_is_not_on_the_list_is_refused(flag, toolbox):
    verdict = graded(toolbox, f"{GOOD}\n{KERNEL}", settings=Settings(flags=(flag,)))
    assert verdict.status is Status.INVALID_SUBMISSION, f"{verdict.status}: {verdict.message}"


@pytest.mark.parametrize("sizes", [{"n": 0}, {"n": -5}, {"n": 1 << 40}, {"m": 5}, {"n": 5, "m": 5}])
def test_sizes_that_the_problem_does_not_have_are_the_callers_mistake(sizes, toolbox):
    with pytest.raises(UsageError):
        graded(toolbox, f"{GOOD}\n{KERNEL}", settings=Settings(sizes=sizes))


def many_kernels(count: int) -> str:
    return "".join(f"__global__ void k{number}(float* y) {{ y[0] = {number}; }}\n" for number in range(count))


def test_too_many_kernels_are_refused_before_they_are_read(toolbox):
    verdict = graded(toolbox, many_kernels(400))
    assert verdict.status is Status.INVALID_SUBMISSION
    assert verdict.message == "The source compiles to 400 kernels: a program may have 256."


def test_many_kernels_cost_little_and_are_not_all_listed(toolbox):
    graded(toolbox, many_kernels(256))  # compiles
    for text in ("", "// assay: launch k999 grid=(1) block=(1) args=(c)\n"):
        started = time.process_time()
        verdict = graded(toolbox, text + many_kernels(256))
        assert time.process_time() - started < 3
        assert verdict.status is Status.INVALID_SUBMISSION
        assert "k7 and 248 more" in verdict.message
        assert len(verdict.message + verdict.hint) < 2000
