"""What to look for where an answer was wrong: what trials that passed, and the size of the error, say about it."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from common.contract import Mismatch, Trial
from evaluator.problems.generators import OWN_ROUNDING
from evaluator.problems.problem import Problem, sizes_in_words
from evaluator.stages.verify.trials import PlannedTrial, tensor_bytes

_SHOWN_SIZES: Final = 6
"""Of those at which the kernel was right: the largest."""
_SMALL_SHARE: Final = 0.04
"""Of the 2-norm of an element's terms, at most: one term that is left out of some hundreds is more."""


def advice(problem: Problem, judged: Sequence[Trial], failed: PlannedTrial, mismatch: Mismatch) -> str:
    """The hint of a wrong answer. `judged`: the trials so far, with this one."""
    return " ".join((_by_comparison(problem, judged, failed), *_by_the_error(problem, failed, mismatch)))


def _by_comparison(problem: Problem, judged: Sequence[Trial], failed: PlannedTrial) -> str:
    passed = [done for done in judged if done.passed]
    if any(probe.distribution is failed.distribution for probe in (*problem.probes, *problem.edge_probes)):
        return f"This input probes the precision: {failed.distribution.reason}."
    if not passed:
        return "No trial has passed: compare the kernel with the problem's statement, index by index."
    if failed.scalars and all(done.scalars != failed.scalars for done in passed):
        names = ", ".join(failed.scalars)
        return (
            f"It was right with other values of {names}. Take {names} from the parameter, not from a constant in "
            "the source or the plan; or look for what depends on the size."
        )
    if all(done.sizes != failed.sizes for done in passed):
        largest_first = sorted(passed, key=lambda done: tensor_bytes(problem, done.sizes), reverse=True)
        sizes = list(dict.fromkeys(sizes_in_words(done.sizes) for done in largest_first))
        smaller = f"; and at {len(sizes) - _SHOWN_SIZES} smaller sizes" if len(sizes) > _SHOWN_SIZES else ""
        edge = (
            f" This size is above all published ones, and within the range: {problem.serves.text}."
            if failed.kind == "edge"
            else ""
        )
        return (
            f"It was right at {'; '.join(sizes[:_SHOWN_SIZES])}{smaller}.{edge} Look for what depends on the size: "
            "tails, strides, the grid's extent."
        )
    return f"The same size was right with other inputs. These inputs are special: {failed.distribution.reason}."


def _by_the_error(problem: Problem, failed: PlannedTrial, mismatch: Mismatch) -> Iterator[str]:
    """What a small error means, if it is one.

    What is allowed is at most the tolerance's share of the terms and the rounding of a result of 16 bits.
    """
    (dtype,) = (tensor.dtype for tensor in problem.outputs if tensor.name == mismatch.output)
    allowed = failed.tolerance.relative + OWN_ROUNDING.get(dtype, 0.0)
    share = min((mismatch.error or math.inf) * allowed, _of_the_answer(mismatch))
    if 0 < share <= _SMALL_SHARE:
        yield (
            f"The error is at most {share:.2g} of the terms' size, little for a wrong index: look for a lower "
            "precision inside than the problem asks for (half, bfloat16, TF32, approximate functions), also in "
            "accumulators."
        )


def _of_the_answer(mismatch: Mismatch) -> float:
    """The error over the answer itself, which is one of the terms; infinite where that says nothing."""
    actual, expected = float(mismatch.actual), float(mismatch.expected)
    return abs(actual - expected) / abs(expected) if expected and math.isfinite(actual) else math.inf
