"""Verification with real kernels on the simulator, and the plan of trials by itself."""

import numpy as np
import pytest

from common.contract import Settings, Status, Submission
from evaluator.errors import UsageError
from evaluator.pipeline.pipeline import evaluate
from evaluator.problems.arrays import NumpyRng
from evaluator.problems.catalogue import find_problem, problems
from evaluator.stages.verify.trials import plan_trials, tensor_bytes

QUICK = Settings(verification="quick")
"""What lies above the published sizes is test_large_trials' affair."""


def graded(toolbox, problem, source, **settings):
    wanted = Settings(verification="quick", **settings)
    return evaluate(Submission(problem=problem, source=source, settings=wanted), toolbox)


def kernel(body, parameters="const float* x, float* y, int n", more=""):
    return (
        f"{more}\n__global__ void relu({parameters})\n{{\n"
        f"    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    {body}\n}}\n"
    )


RIGHT = "y[i] = x[i] > 0.0f ? x[i] : 0.0f;"


# ---- which trials there are ----


@pytest.mark.parametrize("problem", problems().values(), ids=lambda problem: problem.id)
def test_trials_cover_published_and_hidden_sizes_all_distributions_and_all_probes(problem):
    trials = plan_trials(problem, QUICK, np.random.default_rng(7))
    published = [trial.sizes for trial in trials if not trial.hidden]
    assert published == list(problem.example_sizes)
    assert any(trial.hidden and trial.sizes not in published for trial in trials)
    used = {trial.distribution.name for trial in trials}
    always = {each.name for each in problem.distributions if each.role == "hostile"}
    always |= {p.distribution.name for p in problem.probes}
    assert always <= used <= always | {each.name for each in problem.distributions}


def test_distributions_with_structure_take_turns_in_the_place_of_the_typical_one():
    problem = find_problem("row_sum")
    structured = {each.name for each in problem.distributions if each.role == "structured"}
    drawn = []
    for seed in range(12):
        trials = plan_trials(problem, Settings(), np.random.default_rng(seed))
        drawn.append([trial.distribution.name for trial in trials if trial.distribution.role == "structured"])
        assert len(set(drawn[-1])) == len(drawn[-1]) > 0
        hidden = [trial for trial in trials if trial.hidden and trial.distribution is problem.distributions[0]]
        assert len(hidden) >= len(drawn[-1])
    assert {name for names in drawn for name in names} == structured
    assert len({tuple(names) for names in drawn}) > 1


@pytest.mark.parametrize("seed", range(3))
def test_partial_distributions_are_at_the_largest_hidden_size(seed):
    problem = find_problem("matmul")
    trials = plan_trials(problem, Settings(), np.random.default_rng(seed))
    quick = plan_trials(problem, QUICK, np.random.default_rng(seed))
    hidden = problem.hidden_sizes(np.random.default_rng(seed))
    partial = [trial for trial in trials if trial.distribution.role == "partial"]
    assert [trial.distribution.name for trial in partial] == ["zero_parts", "equal_parts"]
    assert len([trial for trial in quick if trial.distribution.role == "partial"]) == 1
    assert {tensor_bytes(problem, trial.sizes) for trial in partial} == {
        max(tensor_bytes(problem, sizes) for sizes in hidden)
    }


def test_hidden_sizes_follow_the_seed_alone():
    problem = find_problem("relu")
    first, again, other = (
        [trial.sizes for trial in plan_trials(problem, Settings(), np.random.default_rng(seed))] for seed in (1, 1, 2)
    )
    assert first == again != other


def test_a_size_that_is_asked_for_is_one_more_trial_and_its_other_sizes_are_the_typical_ones():
    problem = find_problem("matmul")
    plain = plan_trials(problem, Settings(), np.random.default_rng(1))
    more = plan_trials(problem, Settings(sizes={"k": 17}), np.random.default_rng(1))
    assert len(more) == len(plain) + 1
    assert [t.sizes for t in more if t.sizes == {**problem.example_sizes[0], "k": 17}]


@pytest.mark.parametrize("sizes", [{"n": 0}, {"n": -1}, {"n": 1 << 31}, {"n": 17_825_793}, {"m": 4}, {"": 1}])
def test_a_size_that_cannot_be_is_the_callers_mistake(sizes):
    with pytest.raises(UsageError) as caught:
        plan_trials(find_problem("relu"), Settings(sizes=sizes), np.random.default_rng(1))
    assert caught.value.remedy


def test_sizes_that_are_out_of_range_only_together_are_said_to_be():
    with pytest.raises(
        UsageError, match=r"rows=60000, cols=\d+ are out of range together \(cols=\d+ by default\)"
    ) as caught:
        plan_trials(find_problem("softmax"), Settings(sizes={"rows": 60_000}), np.random.default_rng(1))
    assert "at most 17,825,792 elements in a tensor" in caught.value.remedy


# ---- what a kernel may not do ----


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("if (i < n - 1) " + RIGHT, ["y[", "only the last element is wrong", "ever written"]),
        ("", ["y[0]", "never written"]),
        ("if (i < n && x[i] > 0.0f) y[i] = x[i];", ["ever written"]),
        ("if (i < n) y[i] += x[i];", ["y[0]"]),
    ],
    ids=["last element", "nothing at all", "only the positive", "accumulates"],
)
def test_an_output_that_is_not_written_is_incorrect(body, words, toolbox):
    verdict = graded(toolbox, "relu", kernel(body))
    assert verdict.status is Status.INCORRECT
    assert all(word in verdict.message for word in words), verdict.message
    assert verdict.hint
    assert not verdict.correctness.trials[-1].passed


def test_undefined_shared_memory_that_reaches_the_output_is_incorrect(toolbox):
    body = f"__shared__ float s[256]; if (i < n) {{ {RIGHT} if (s[threadIdx.x] > 0.0f) y[i] += 1.0f; }}"
    verdict = graded(toolbox, "relu", kernel(body))
    assert verdict.status is Status.INCORRECT
    assert "y[0] was computed from s[0], which nobody had written" in verdict.message


def test_undefined_shared_memory_that_does_not_matter_is_no_fault(toolbox):
    body = f"__shared__ float s[256]; if (i < n) {{ {RIGHT} y[i] += s[threadIdx.x] == 12345.678f ? 0.0f : 0.0f; }}"
    assert graded(toolbox, "relu", kernel(body)).status is Status.PASSED


@pytest.mark.parametrize(("at", "element"), [("0", 0), ("n / 2", None), ("n - 1", None)])
def test_an_input_that_comes_back_changed_is_rejected_by_its_element(at, element, toolbox):
    body = f"if (i < n) {{ {RIGHT} if (i == ({at})) const_cast<float*>(x)[i] = 77.0f; }}"
    verdict = graded(toolbox, "relu", kernel(body))
    assert verdict.status is Status.REJECTED
    n = verdict.correctness.trials[-1].sizes["n"]
    expected = {"0": 0, "n / 2": n // 2, "n - 1": n - 1}[at]
    assert f"x[{expected}]" in verdict.message
    assert verdict.reward.value <= 0


def test_an_answer_that_depends_on_earlier_trials_fails(toolbox):
    """Right the first few times, by a counter that lives in the module."""
    body = f"int now = i == 0 ? atomicAdd(&runs, 1) : runs; if (i < n) {{ {RIGHT} if (now > 5) y[i] = 0.5f; }}"
    verdict = graded(toolbox, "relu", kernel(body, more="__device__ int runs;"))
    assert verdict.status is Status.INCORRECT
    assert any(trial.passed for trial in verdict.correctness.trials)


def test_a_kernel_that_replays_its_first_answer_fails(toolbox):
    body = "if (i < n) { if (!kept[i]) { answer[i] = fmaxf(x[i], 0.0f); kept[i] = true; } y[i] = answer[i]; }"
    source = kernel(body, more="__device__ float answer[1 << 22];\n__device__ bool kept[1 << 22];")
    assert graded(toolbox, "relu", source).status is Status.INCORRECT


# ---- limits and what is told ----


def test_the_time_limit_is_one_for_all_trials_together(toolbox):
    """Each run alone would be in time."""
    slow = f"if (i < n) {{ {RIGHT} }} for (volatile int k = 0; k < 20000; k++) {{ }}"
    alone = graded(toolbox, "relu", kernel(slow), run_timeout_s=30)
    limit_s = 0.5
    verdict = graded(toolbox, "relu", kernel(slow), run_timeout_s=limit_s)
    assert alone.status in (Status.PASSED, Status.TIMEOUT)
    assert verdict.status is Status.TIMEOUT
    assert verdict.receipt.duration_s < 15
    assert verdict.hint


def test_wrong_at_odd_sizes_says_where_it_was_right(toolbox):
    verdict = graded(toolbox, "relu", kernel("if (i < n) y[i] = n % 2 && i == n - 1 ? -1.0f : fmaxf(x[i], 0.0f);"))
    assert verdict.status is Status.INCORRECT
    assert "It was right at" in verdict.hint
    mismatch = verdict.correctness.trials[-1].mismatch
    assert mismatch.actual == "-1"
    assert mismatch.index == (verdict.correctness.trials[-1].sizes["n"] - 1,)


def test_what_is_printed_and_counted_is_kept(toolbox):
    body = f'if (i < n) {{ {RIGHT} }} if (i == 0) printf("n is %d\\n", n);'
    verdict = graded(toolbox, "relu", kernel(body, more="#include <cstdio>"))
    assert verdict.status is Status.PASSED
    assert "n is " in verdict.correctness.printed
    assert verdict.profile.thread_instructions > 1000
    assert verdict.correctness.deterministic is True
    assert len(verdict.correctness.trials) >= verdict.correctness.planned_trials


@pytest.mark.parametrize("problem", [p for p in problems().values() if p.scalars], ids=lambda problem: problem.id)
def test_hidden_trials_vary_scalars_and_published_ones_do_not(problem):
    trials = plan_trials(problem, Settings(), np.random.default_rng(7))
    for scalar in problem.scalars:
        values = {trial.scalars.get(scalar.name, scalar.value) for trial in trials if trial.hidden}
        assert values == {scalar.value, *scalar.others}
        assert {trial.scalars.get(scalar.name) for trial in trials if not trial.hidden} == {None}
    for trial in trials:
        inputs = problem.distributions[0].draw(NumpyRng(np.random.default_rng(1)), problem.example_sizes[0])
        published = problem.oracle(inputs, problem.example_sizes[0])
        if any(trial.scalars.get(s.name, s.value) != s.value for s in problem.scalars):
            other = problem.oracle(inputs, problem.example_sizes[0], **trial.scalars)
            name = problem.outputs[0].name
            assert not np.allclose(other[name].value, published[name].value, rtol=1e-7, atol=0)
            break


# ---- what a race's verdict says ----

REDUCED = """// assay: launch softmax grid=(rows) block=(256) args=(x, y, rows, cols)
__device__ float over_the_block(float v, bool most)
{
    __shared__ float part[8];
    for (int o = 16; o; o /= 2) {
        float t = __shfl_xor_sync(~0u, v, o);
        v = most ? fmaxf(v, t) : v + t;
    }
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    v = part[0];
    for (int w = 1; w < 8; w++) v = most ? fmaxf(v, part[w]) : v + part[w];
    return v;
}
__global__ void softmax(const float* x, float* y, int rows, int cols)
{
    x += blockIdx.x * cols, y += blockIdx.x * cols;
    float m = -INFINITY, s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 256) m = fmaxf(m, x[c]);
    m = over_the_block(m, true);
    for (int c = threadIdx.x; c < cols; c += 256) s += expf(x[c] - m);
    s = over_the_block(s, false);
    for (int c = threadIdx.x; c < cols; c += 256) y[c] = expf(x[c] - m) / s;
}
"""


def test_a_race_that_spoils_a_large_run_is_named(toolbox):
    verdict = graded(toolbox, "softmax", REDUCED)
    assert verdict.status is Status.INCORRECT
    assert "two threads race" in verdict.message
    assert verdict.correctness.fault.buffer == "part"
    assert verdict.correctness.fault.line in (9, 11, 12)
    assert "__syncthreads()" in verdict.hint


def test_turns_without_a_barrier_are_advised_to_have_one(toolbox):
    source = """// assay: launch sums grid=(rows) block=(256) args=(x, y, rows, cols)
__global__ void sums(const float* x, float* y, int rows, int cols)
{
    __shared__ float s[256];
    float v = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 256) v += x[blockIdx.x * cols + c];
    s[threadIdx.x] = v;
    __syncthreads();
    for (int h = 128; h; h /= 2) if (threadIdx.x < h) s[threadIdx.x] += s[threadIdx.x + h];
    if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}
"""
    verdict = graded(toolbox, "row_sum", source)
    assert verdict.status is Status.INCORRECT
    assert "two threads race" in verdict.message
    assert "`__syncthreads()` at the end of each turn" in verdict.hint
