"""Shrinking on the simulator: known faults come down to the sizes and inputs at which they begin."""

import pytest

from common.contract import Correctness, Mismatch, Phase, Settings, Status, Submission, Trial, Verdict
from evaluator.errors import Ruling
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.reproduce import why_none
from evaluator.problems.catalogue import find_problem
from evaluator.stages.compile.nvcc import compile_source
from evaluator.stages.launch.planning import plan_launches
from evaluator.stages.verify.shrinking import candidate_of, shrink, tolerance_of
from evaluator.stages.verify.verified import Verified

INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"


def relu(body: str, more: str = "") -> str:
    return f"{more}\n__global__ void relu(const float* x, float* y, int n) {{ {INDEX} {body} }}"


def shrunk(toolbox, problem: str, source: str, **settings: float) -> Verdict:
    chosen = Settings(**{"shrink_s": 30.0, "verification": "quick", **settings})
    return evaluate(Submission(problem=problem, source=source, settings=chosen), toolbox)


@pytest.mark.parametrize(
    ("body", "status", "n", "content", "words"),
    [
        (
            "if (i < n) y[i] = n < 33 ? fmaxf(x[i], 0.0f) : fmaxf(x[i], 0.5f);",
            "incorrect",
            33,
            "zeros",
            "Already wrong",
        ),
        (
            "if (i < n) y[i] = n < 700 ? fmaxf(x[i], 0.0f) : fabsf(x[i]);",
            "incorrect",
            700,
            "scrambled",
            "Already wrong",
        ),
        ("if (i < n) y[i] = fmaxf(x[i + (n > 40)], 0.0f);", "runtime_error", 41, "zeros", "It happens already"),
        ("if (i < n / 32 * 32) y[i] = fmaxf(x[i], 0.0f);", "incorrect", 1, "zeros", "Already wrong"),
        (
            "if (i < n) { y[i] = fmaxf(x[i], 0.0f); ((float*)x)[i] = 5.0f; }",
            "rejected",
            1,
            "zeros",
            "It happens already",
        ),
        (
            "while (n > 64) y[0] = clock(); if (i < n) y[i] = fmaxf(x[i], 0.0f);",
            "timeout",
            65,
            "zeros",
            "It happens already",
        ),
    ],
    ids=["from 33 on", "negative from 700 on", "reads behind", "tail", "writes an input", "endless"],
)
def test_a_fault_is_found_where_it_begins(body, status, n, content, words, toolbox):
    verdict = shrunk(toolbox, "relu", relu(body), run_timeout_s=1.5)
    assert verdict.status == status
    smallest = verdict.correctness.smallest
    assert smallest is not None, verdict.correctness.warnings
    assert smallest.sizes == {"n": n}, smallest
    assert smallest.inputs == {"x": content}
    assert smallest.finished
    assert f"{words} at n={n}, with " in verdict.message
    assert verdict.message.endswith(smallest.said)
    assert smallest.tried >= 3


def test_every_size_becomes_small_by_itself(toolbox):
    source = (
        "__global__ void transpose(const float* x, float* y, int rows, int cols) {\n"
        "    int i = blockIdx.x * blockDim.x + threadIdx.x, row = i / cols, col = i % cols;\n"
        "    if (i < rows * cols) y[col * rows + row] = cols >= 20 && row == 2 ? -x[i] : x[i];\n}"
    )
    smallest = shrunk(toolbox, "transpose", source).correctness.smallest
    assert smallest.sizes == {"rows": 3, "cols": 20}
    assert smallest.inputs == {"x": "ones"}
    assert smallest.mismatch.wrong_count == 20


def test_a_scalar_that_matters_keeps_its_value(toolbox):
    source = (
        f"__global__ void scale(const float* x, float* y, float alpha, int n) {{ {INDEX} "
        "if (i < n) y[i] = (alpha < 0.0f ? -alpha : alpha) * x[i]; }"
    )
    verdict = shrunk(toolbox, "scalar_multiply", source)
    smallest = verdict.correctness.smallest
    assert smallest.sizes == {"n": 1}
    assert smallest.scalars["alpha"] < 0
    assert smallest.inputs == {"x": "ones"}
    assert "plain inputs" in smallest.message


def test_only_what_has_to_be_stays_drawn(toolbox):
    """A large value in one input is needed, the other can be anything."""
    source = (
        "__global__ void vector_add(const float* a, const float* b, float* c, int n) {"
        f" {INDEX} if (i < n) c[i] = fabsf(a[i]) > 1e8f ? 0.0f : a[i] + b[i]; }}"
    )
    verdict = shrunk(toolbox, "vector_add", source)
    smallest = verdict.correctness.smallest
    assert smallest.inputs == {"a": "drawn", "b": "zeros"}
    problem = find_problem("vector_add")
    candidate = candidate_of(problem, smallest)
    drawn = candidate.draw(problem)
    assert abs(drawn["a"]).max() > 1e8
    assert not drawn["b"].any()
    assert tolerance_of(problem, candidate) is problem.tolerance


def test_a_fault_that_needs_earlier_runs_is_said_not_to_shrink(toolbox):
    body = "int now = i == 0 ? atomicAdd(&runs, 1) : runs; if (i < n) y[i] = now > 9 ? 0.5f : fmaxf(x[i], 0.0f);"
    verdict = shrunk(toolbox, "relu", relu(body, "__device__ int runs;"))
    assert verdict.status is Status.INCORRECT
    assert verdict.correctness.smallest is None
    assert "runs before it" in why_none(verdict)


def test_a_fault_that_the_simulator_is_too_slow_for_is_looked_for_at_smaller_sizes(toolbox):
    """What a GPU saw at a size that is too large for a simulator."""
    source = relu("for (int k = 0; n > 100000 && k < n; ++k) y[i % n] = k; if (i < n - 1) y[i] = fmaxf(x[i], 0.0f);")
    problem, settings = find_problem("relu"), Settings(shrink_s=30)
    compiled = compile_source(source, settings, "sm_80", toolbox.toolchain, toolbox.sandbox, toolbox.cache)
    checked_plan = plan_launches(problem, compiled.program, None, source).checked_plan
    mismatch = Mismatch(
        output="y", index=(0,), expected="0", actual="1", error=9.0, wrong_count=1, count=1, pattern=""
    )
    trial = Trial(sizes={"n": 1 << 20}, distribution="normal", hidden=False, passed=False, mismatch=mismatch)
    seen = Verified(
        Ruling(Status.INCORRECT, Phase.VERIFY, "y[5] was never written."),
        Correctness(passed=False, trials=(trial,), planned_trials=1),
    )
    shown = shrink(checked_plan, compiled.program, toolbox.simulator, settings, seen, 7)
    assert shown.correctness.smallest.sizes == {"n": 1}
    assert shown.ruling.message.startswith("y[5] was never written. Already wrong at n=1, ")


def test_when_the_time_is_up_the_verdict_stands(toolbox):
    verdict = shrunk(toolbox, "relu", relu("if (i < n - 1) y[i] = fmaxf(x[i], 0.0f);"), shrink_s=1e-6)
    assert verdict.status is Status.INCORRECT
    assert verdict.correctness.smallest is None
    assert "time for it was up" in why_none(verdict)


@pytest.mark.parametrize("body", ["if (i < n) y[i] = fmaxf(x[i], 0.0f);", "nonsense"], ids=["right", "no C++"])
def test_what_does_not_fail_when_it_runs_is_not_shrunk(body, toolbox):
    verdict = shrunk(toolbox, "relu", relu(body))
    assert verdict.correctness is None or verdict.correctness.smallest is None
    assert ("passed" if verdict.status is Status.PASSED else "nothing was run") in why_none(verdict)


def test_nothing_is_looked_for_that_was_not_asked_for(toolbox):
    verdict = evaluate(Submission(problem="relu", source=relu("")), toolbox)
    assert verdict.correctness.smallest is None
    assert "--shrink" in why_none(verdict)
    assert "Already" not in verdict.message
