"""Trials beyond the published sizes, with real kernels on the simulator: whole, by blocks, or left out and said."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.contract import Phase, Settings, Status, Submission
from evaluator.pipeline.pipeline import evaluate
from evaluator.problems.catalogue import find_problem, problems
from evaluator.stages.verify.large.large_trials import predicted
from evaluator.stages.verify.trials import plan_trials, rehearsal, tensor_bytes, trials_and_left_out

RELU = """// assay: launch k grid=({grid}) block=(128) args=(x, y, n)
__global__ void k(const float* x, float* y, int n)
{{
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i < n{more}) y[i] = fmaxf(x[i], 0.0f);
}}
"""
TILED = """// assay: launch matmul grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)
__global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k)
{
    int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= m || column >= n) return;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
}
"""


def graded(toolbox, problem, source, **settings):
    wanted = Settings(estimate_for=None, **settings)
    return evaluate(Submission(problem=problem, source=source, backend="sim", settings=wanted), toolbox)


# ---- which trials there are ----


@pytest.mark.parametrize("problem", problems().values(), ids=lambda problem: problem.id)
def test_a_full_verification_has_the_quick_trials_then_edges_then_the_timed_size(problem):
    quick = plan_trials(problem, Settings(verification="quick"), np.random.default_rng(7))
    full = plan_trials(problem, Settings(), np.random.default_rng(7))
    usual = [one for one in full if one.kind == "usual"]
    # Of those that are partial a quick one has one, at the same place.
    shared = [
        [(one.sizes, one.distribution.name) for one in some if one.distribution.role != "partial"]
        for some in (usual, quick)
    ]
    assert shared[0] == shared[1]
    partial = [one for one in problem.distributions if one.role == "partial"]
    assert len(usual) == len(quick) + max(0, len(partial) - 1)
    assert full[: len(usual)] == tuple(usual)
    rounds = [one for one in full if one.kind == "round"]
    assert full[len(usual) : len(usual) + len(rounds)] == tuple(rounds)
    assert all(one.hidden and problem.serves.admits(one.sizes) for one in rounds)
    *edges, timed = full[len(usual) + len(rounds) :]
    assert (timed.kind, timed.hidden, timed.sizes) == ("timed", False, problem.timing_sizes)
    assert {(one.kind, one.hidden) for one in edges} == {("edge", True)}
    in_bytes = [tensor_bytes(problem, one.sizes) for one in edges]
    assert in_bytes == sorted(in_bytes)
    assert [one for one in rehearsal(problem, full) if one.kind != "usual"] == []


@pytest.mark.parametrize("seed", range(5))
def test_a_bin_takes_all_of_more_values_than_16_bits_can_count(seed):
    trials = plan_trials(find_problem("histogram"), Settings(), np.random.default_rng(seed))
    edges = [(one.distribution.name, one.sizes["n"]) for one in trials if one.kind == "edge"]
    assert any(name == "one_value" and n > 1 << 16 for name, n in edges)


def test_a_size_whose_tensors_leave_no_room_is_left_out_and_said():
    problem, small = find_problem("relu"), Settings(memory_bytes=64 << 20)
    trials, said = trials_and_left_out(problem, small, np.random.default_rng(3))
    assert {one.kind for one in trials} == {"usual", "round", "edge"}
    kept = [one.sizes for one in trials]
    assert len(said) == 2
    assert "n=16777216: its tensors take 128 MiB, more than half of the memory limit" in said
    assert all(f"n={sizes['n']}:" not in text for sizes in kept for text in said)
    quick = Settings(verification="quick", memory_bytes=64 << 20)
    assert trials_and_left_out(problem, quick, np.random.default_rng(3), timed_too=True)[1] == ()


@pytest.mark.parametrize("problem", problems().values(), ids=lambda problem: problem.id)
def test_what_is_left_out_is_said_whether_or_not_the_size_of_the_timing_is_published(problem):
    small = Settings(memory_bytes=24 << 20)
    (_, said), (_, timed) = (
        trials_and_left_out(problem, small, np.random.default_rng(3), timed_too) for timed_too in (False, True)
    )
    assert said == timed


def test_what_a_run_costs_follows_from_work_and_threads():
    costs = [(work, threads, 3 * work + 50 * threads) for work, threads in ((100, 1), (10, 64), (5000, 32))]
    assert predicted(costs, 1e6, 1000) == pytest.approx(3e6 + 5e4)
    assert predicted([], 1e6, 1000) == 0


@given(st.lists(st.tuples(st.floats(1, 1e9), st.integers(1, 1 << 30), st.integers(1, 1 << 40)), max_size=20))
def test_no_cost_is_below_zero(costs):
    assert predicted(costs, 1e9, 1 << 20) >= 0


# ---- what becomes of kernels ----


def test_the_launch_of_the_timed_size_is_refused_before_anything_runs(toolbox):
    source = RELU.format(grid="1, ceil_div(n, 128)", more="")
    for mode in ("quick", "full"):
        verdict = graded(toolbox, "relu", source, verification=mode)
        assert (verdict.status, verdict.phase) == (Status.INVALID_SUBMISSION, Phase.LAUNCH)
        assert "131072 (at n = 16777216)" in verdict.message
        assert verdict.correctness is None
    # Also where its tensors have no room, so that it would never be run.
    verdict = graded(toolbox, "relu", source, memory_bytes=64 << 20)
    assert verdict.status is Status.INVALID_SUBMISSION


def test_a_right_kernel_passes_in_both_modes_and_the_verdict_says_which(toolbox):
    source = RELU.format(grid="ceil_div(n, 128)", more="")
    full, quick = graded(toolbox, "relu", source), graded(toolbox, "relu", source, verification="quick")
    assert (full.status, quick.status) == (Status.PASSED, Status.PASSED)
    assert (full.correctness.verification, quick.correctness.verification) == ("full", "quick")
    assert full.receipt.settings.verification == "full"
    timed = full.correctness.trials[-1]
    assert timed.sizes == {"n": 1 << 24}
    assert 1000 < timed.compared <= 5000
    assert timed.blocks is None
    assert all(trial.compared is None for trial in quick.correctness.trials)
    assert full.correctness.left_out == ()


def test_a_kernel_that_is_right_up_to_the_published_sizes_passes_the_quick_mode_alone(toolbox):
    source = RELU.format(grid="min(ceil_div(n, 128), 8192)", more="")
    assert graded(toolbox, "relu", source, verification="quick").status is Status.PASSED
    verdict = graded(toolbox, "relu", source)
    assert verdict.status is Status.INCORRECT
    trial = verdict.correctness.trials[-1]
    assert trial.hidden
    assert trial.mismatch.index == (8192 * 128,)
    assert f"{trial.sizes['n'] - 8192 * 128} of {trial.sizes['n']} elements were never written" in verdict.message


def test_one_element_that_the_timed_size_alone_lacks_is_found_among_millions(toolbox):
    verdict = graded(
        toolbox, "relu", RELU.format(grid="ceil_div(n, 128)", more=" && (n != 16777216 || i != 9999999)")
    )
    assert verdict.status is Status.INCORRECT
    mismatch = verdict.correctness.trials[-1].mismatch
    assert (mismatch.index, mismatch.wrong_count, mismatch.count) == ((9_999_999,), 1, 1 << 24)


def test_an_input_that_changes_at_the_timed_size_alone_is_noticed(toolbox):
    source = RELU.format(grid="ceil_div(n, 128)", more="").replace(
        "}\n", "    if (n == 16777216) ((float*)x)[n - 1] = 1;}\n"
    )
    verdict = graded(toolbox, "relu", source)
    assert verdict.status is Status.REJECTED
    assert "The input x was changed: in a run at n=16777216" in verdict.message


def test_where_all_of_it_takes_too_long_a_few_blocks_are_compared(toolbox):
    verdict = graded(toolbox, "matmul", TILED)
    assert verdict.status is Status.PASSED
    timed = verdict.correctness.trials[-1]
    assert timed.blocks.endswith(" of 16,384")
    assert timed.compared >= 256
    wrong = TILED.replace("] = sum", "] = m == 2048 ? sum * 1.001f : sum")
    verdict = graded(toolbox, "matmul", wrong)
    assert verdict.status is Status.INCORRECT
    assert "At m=2048, n=2048, k=2048" in verdict.message


def test_what_can_be_judged_neither_whole_nor_by_blocks_is_left_out_and_said(toolbox):
    source = TILED.replace("// assay", "// assay: fill c value=0\n// assay").replace("] = sum", "] += sum")
    verdict = graded(toolbox, "matmul", source)
    assert verdict.status is Status.PASSED
    assert verdict.correctness.trials[-1].compared == 0
    (said,) = verdict.correctness.left_out
    assert said.startswith("m=2048, n=2048, k=2048: all of it takes too long")
    assert "Not judged at m=2048, n=2048, k=2048." in verdict.message
