"""Right kernels in which threads meet in memory: locks, look-back, last blocks, grid barriers, roles, tickets, rings.

Each is right by the memory model of the PTX ISA, not only on the GPUs that there are: what is handed over is released
and acquired in a scope that holds both sides, and a fence stands behind the barrier that gathers what it publishes.
None may be refused, and none accused: a hazard in the verdict of one is a fault of the verdict.
"""

import re
from pathlib import Path

import pytest

from common.contract import Settings, Status, Submission
from evaluator.pipeline.pipeline import evaluate
from evaluator.problems.catalogue import problems

KERNELS = sorted(Path(__file__).parent.glob("*.cu"))
# Refused or accused today, and what it would take. A file that passes without a hazard must leave this list.
JUDGED_WRONG = {
    "gelu_opportunistic_fast_path",  # no `activemask` where the answer does not depend on who is active
    # 64 bits that one relaxed access stores are kept and performed in two words of 32, which a reader finds apart.
    "prefix_sum_cub_tile_state",
    "prefix_sum_packed_look_back_by_warp",
    "scalar_multiply_value_and_flag_in_one_word",
    # A reducing barrier has no place for lanes that come while others of their warp are still in a long loop.
    "linear_gelu_cutlass_semaphore",
    "layer_norm_tile_of_four_warps",  # `%reserved_smem_offset_1`, which cooperative_groups reads
    "scalar_multiply_turns_of_warps",  # a warp that spins gives way at once, not after some hundred instructions
}


def header(source: str) -> dict[str, str]:
    return dict(re.findall(r"^// (problem|style|flags): (.*)$", source, re.MULTILINE))


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_a_right_concurrent_kernel_passes_without_a_hazard(path, toolbox):
    source = path.read_text()
    head = header(source)
    settings = Settings(estimate_for=None, flags=tuple(head.get("flags", "").split()), run_timeout_s=20)
    verdict = evaluate(Submission(problem=head["problem"], source=source, backend="sim", settings=settings), toolbox)
    assert verdict.status is not Status.INTERNAL_ERROR, verdict.message
    hazards = verdict.correctness.hazards if verdict.correctness else ()
    clean = verdict.status is Status.PASSED and not hazards
    assert clean == (path.stem not in JUDGED_WRONG), f"{verdict.message}\n{verdict.hint}\n{hazards}"


def test_the_right_concurrent_kernels_cover_every_problem():
    heads = [header(path.read_text()) for path in KERNELS]
    assert len(heads) >= 60
    assert {head["problem"] for head in heads} == set(problems())
    assert len({head["style"] for head in heads}) == len(heads)
    assert {path.stem for path in KERNELS} >= JUDGED_WRONG
