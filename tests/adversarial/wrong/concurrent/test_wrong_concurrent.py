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
    # Blocks and warps that interleave between a load and the store that follows from it.
    "conv2d_accumulate_macro",
    "histogram_counter_kept_over_launches",
    "histogram_lock_by_test_then_set",
    "layer_norm_arrival_before_the_block",
    "matmul_f16_neighbours_half_word",
    "matvec_freed_before_stored",
    "matvec_taken_out_and_put_back",
    "prefix_sum_flags_of_the_launch_before",
    "reduce_sum_atomic_ref_load_store",
    "reduce_sum_warps_add_to_volatile",
    "relu_claim_by_a_look",
    "row_sum_acquire_add_release",
    "saxpy_chunk_dealt_twice",
    "scalar_multiply_one_warp_not_counted",
    "softmax_pair_merged_in_two_steps",
    # Scopes: what is of block scope is atomic, and ordered, for the block only.
    "histogram_red_of_block_scope",
    "matmul_thread_fence_of_block_scope",
    "prefix_sum_chain_released_to_the_block",
    "reduce_sum_ref_of_block_scope",
    "rms_norm_lock_of_block_scope",
    "row_sum_fence_of_block_scope",
    # Stores that are seen later than what follows them, and stale lines: passed without a warning.
    "matvec_ldg_behind_the_fence",
    "matvec_release_without_acquire",
    "prefix_sum_look_back_volatile_only",
    "reduce_sum_last_block_reads_unfenced",
    "reduce_sum_peterson_without_fence",
    "rms_norm_store_release_load_relaxed",
    "saxpy_relay_without_acquire",
    "swiglu_partner_without_block_fence",
    # Likewise: warned of as `unfenced`, and no wrong answer.
    "conv2d_lock_freed_by_a_store",
    "gelu_fence_after_the_flag",
    "gelu_table_checked_twice",
    "layer_norm_statistics_by_volatile_flag",
    "layer_norm_ticket_lock_unfenced",
    "linear_gelu_barrier_taken_for_a_fence",
    "matmul_semaphore_by_volatile",
    "reduce_sum_counts_before_it_fences",
    "relu_relay_by_red_relaxed",
    "scalar_multiply_fence_before_the_barrier",
    "vector_add_compiler_fence",
    # Lanes of a warp that do not run together.
    "histogram_bins_of_a_warp_without_atomics",
    "prefix_sum_warp_scan_in_step",
    "swiglu_lane_zero_tells_in_shared",
    "transpose_flag_by_one_lane",
    "transpose_syncwarp_of_who_is_there",
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
