"""Wrong kernels that were written to be passed. None is `passed`, but where its header says that a warning is enough.

// problem: id          // class: sizes, precision, registers, warp, shared, memory, limits, contents or schedule
// must: anything but passed    or: passed with a warning | anything but passed
// why: why it is wrong, and where that shows
// proof: how to see it

Kernels of class `schedule` go wrong only under schedules or memory orders that the simulator does not draw: those may
pass. `benchmarks/grading/wrong_and_right.py` counts them, and grades all of them on a GPU too.
"""

import re
from pathlib import Path

import pytest

from common.contract import Settings, Status, Submission
from evaluator.pipeline.pipeline import evaluate
from evaluator.problems.catalogue import problems

KERNELS = sorted(Path(__file__).parent.glob("*.cu"))
CLASSES = {"sizes", "precision", "registers", "warp", "shared", "memory", "limits", "contents", "schedule"}
# Not caught today, and what it would take.
MISSED = {
    "matmul_three_launches_when_timed",  # the timed size of several launches is left out, and said to be
    "relu_address_of_the_simulator",  # its buffers lie farther apart than a GPU's
    "relu_from_the_thousandth_run",  # so many launches of one context that no evaluation has
    "row_sum_rows_on_the_heap",  # blocks that take of the heap at once: here they come one after the other
    "softmax_maximum_from_minus_1e20",  # values below -1e8: there exp2 of a fused difference, which is right, is off
    "transpose_by_shared_window",  # another place of the first shared variable
    "matmul_sparse_tiles_when_large",  # wrong in few tiles, of which too few are run: caught in some evaluations
    "row_sum_local_overrun",  # PTX has one block of local memory for all arrays, and no word of where each ends
}
# Caught where the one number at which they are wrong is drawn: how often, in one full verification.
BY_CHANCE = {
    "row_sum_two_rows_a_warp",
    "softmax_columns_from_4097_to_4111",
    "saxpy_pairs_of_quads_when_large",
    "row_sum_six_items",
    "scalar_multiply_rest_of_six",
    "softmax_row_of_exactly_256",
    "vector_add_one_block_short",
    "vector_add_rest_of_exactly_512",
}


def header(source: str) -> dict[str, str]:
    return dict(re.findall(r"^// (problem|class|must|why|proof|flags): (.*)$", source, re.MULTILINE))


def judged(path, toolbox):
    source = path.read_text()
    head = header(source)
    settings = Settings(estimate_for=None, flags=tuple(head.get("flags", "").split()))
    return evaluate(
        Submission(problem=head["problem"], source=source, backend="sim", settings=settings), toolbox
    ), head


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_a_wrong_kernel_does_not_pass(path, toolbox):
    verdict, head = judged(path, toolbox)
    assert verdict.status not in (Status.UNSUPPORTED, Status.INTERNAL_ERROR), verdict.message
    if head["class"].split()[0] != "schedule" and path.stem not in MISSED | BY_CHANCE:
        warned = verdict.correctness is not None and verdict.correctness.hazards and "warning" in head["must"]
        assert verdict.status is not Status.PASSED or warned, verdict.message


def test_the_corpus_covers_every_problem_and_class():
    heads = [header(path.read_text()) for path in KERNELS]
    assert len(heads) >= 60
    assert {head["problem"] for head in heads} == set(problems())
    assert {head["class"].split()[0] for head in heads} == CLASSES
    assert all(len(head["why"]) > 20 and head["must"] for head in heads)
    assert {path.stem for path in KERNELS} >= MISSED | BY_CHANCE
