"""Kernels that are wrong by CUDA's execution model or PTX's memory model, and often go well on a GPU.

// problem: id                  // class: schedule
// race: lost update, fence, scope, mask, divergence, shuffle, last block, lock or barrier
// must: anything but passed    or: passed with a warning | anything but passed
// why: why it is wrong         // proof: what shows it, or where it is said
"""

import re
from pathlib import Path

import pytest

from common.contract import Settings, Status, Submission
from evaluator.pipeline.pipeline import evaluate
from evaluator.problems.catalogue import problems

KERNELS = sorted(Path(__file__).parent.glob("*.cu"))
RACES = {"lost update", "fence", "scope", "mask", "divergence", "shuffle", "last block", "lock", "barrier"}
# Not caught as their headers ask, and what it would take. One that is caught in all evaluations must leave this list.
MISSED = {
    # Caught in some evaluations: another block must come between two neighbouring accesses of few threads.
    "gelu_fence_after_the_flag",
    "reduce_sum_counts_before_it_fences",
    "softmax_pair_merged_in_two_steps",
    # As before, between two accesses of one thread in each of several blocks: most points where blocks may give way
    # are the kernel's other atomics and strong accesses, and draws are few.
    "gelu_stack_without_tags",
    "histogram_two_locks_in_both_orders",
    # A block that stands still for thousands of another one's looks: who spins gives way to whom it waits for.
    "histogram_lock_with_a_timeout",
    # Weak memory is drawn in cheap trials, which are too small to come to the branch that lacks the fence.
    "matmul_wide_k_without_a_fence",
    "reduce_sum_fence_missing_where_n_is_large",
    # Variables of the module keep what the run before left, and runs in weak memory repeat a trial's inputs: what is
    # stale is right.
    "row_sum_parts_in_module_memory",
    # Caught in some, or none: a block that acquires something in between no longer finds what was there before.
    "reduce_sum_last_block_reads_unfenced",
    "saxpy_relay_without_acquire",
    # Threads of one block see each other's stores at once, and a fence covers those of its whole warp.
    "swiglu_partner_without_block_fence",
    "transpose_flag_by_one_lane",
    # A phase of an mbarrier that is complete before all have come.
    "scalar_multiply_one_warp_not_counted",
}


def header(source: str) -> dict[str, str]:
    return dict(re.findall(r"^// (problem|class|race|must|why|proof|flags): (.*)$", source, re.MULTILINE))


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_a_wrong_concurrent_kernel_is_caught(path, toolbox):
    source = path.read_text()
    head = header(source)
    settings = Settings(estimate_for=None, flags=tuple(head.get("flags", "").split()), run_timeout_s=20)
    verdict = evaluate(Submission(problem=head["problem"], source=source, backend="sim", settings=settings), toolbox)
    assert verdict.status not in (
        Status.UNSUPPORTED,
        Status.INTERNAL_ERROR,
        Status.COMPILE_ERROR,
        Status.INVALID_SUBMISSION,
    ), verdict.message
    if path.stem not in MISSED:
        warned = verdict.correctness is not None and verdict.correctness.hazards and "warning" in head["must"]
        assert verdict.status is not Status.PASSED or warned, verdict.message


def test_the_wrong_concurrent_kernels_cover_every_problem_and_race():
    heads = [header(path.read_text()) for path in KERNELS]
    assert len(heads) >= 50
    assert {head["problem"] for head in heads} == set(problems())
    assert {head["race"] for head in heads} == RACES
    assert {head["class"] for head in heads} == {"schedule"}
    assert all(len(head["why"]) > 40 and len(head["proof"]) > 20 and head["must"] for head in heads)
    assert {path.stem for path in KERNELS} >= MISSED
