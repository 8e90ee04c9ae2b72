"""What to look for where an answer was wrong: what trials that passed, and the size of the error, say about it."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from common.contract import Mismatch, Trial
from evaluator.problems.generators import OWN_ROUNDING
from evaluator.problems.problem import Problem, sizes_in_words
from evaluator.stages.launch.checked_plan import CheckedPlan
from evaluator.stages.verify.comparison import Comparison
from evaluator.stages.verify.trials import PlannedTrial, tensor_bytes

_SHOWN_SIZES: Final = 6
"""Of those at which the kernel was right: the largest."""
_SMALL_SHARE: Final = 0.04
"""Of the 2-norm of an element's terms, at most: one term that is left out of some hundreds is more."""

RightWith: TypeAlias = Callable[[Mapping[str, float]], bool]
"""Whether the answer would be right with these values of scalars."""


def advice(
    checked_plan: CheckedPlan,
    judged: Sequence[Trial],
    failed: PlannedTrial,
    comparison: Comparison,
    right_with: RightWith | None = None,
) -> str:
    """The hint of a wrong answer. `judged`: the trials so far, with this one."""
    mismatch, problem = comparison.mismatch, checked_plan.problem
    assert mismatch is not None
    small = " ".join(_by_the_error(problem, failed, mismatch, comparison.leaning))
    computed = "written" not in mismatch.pattern
    if right_with is not None and computed:
        for name, value in _other_values(problem, failed):
            if right_with({**failed.values, name: value}):
                return (
                    f"The answer is right for {name}={value:g}, and here {name} is {failed.values[name]:g}: "
                    f"use {name} as the problem passes it."
                )
    if checked_plan.unread_scalars and computed:
        return f"{_unread(checked_plan.unread_scalars, failed)} {small}".rstrip()
    return f"{_by_comparison(checked_plan, judged, failed, not small)} {small}".rstrip()


def _other_values(problem: Problem, failed: PlannedTrial) -> Iterator[tuple[str, float]]:
    """What scalars are in other trials, the published value first."""
    for scalar in problem.scalars:
        for value in (scalar.value, *scalar.others):
            if value != failed.values[scalar.name]:
                yield scalar.name, value


def _unread(names: Sequence[str], failed: PlannedTrial) -> str:
    values = ", ".join(f"{name}={failed.values[name]:g}" for name in names)
    them = "it" if len(names) == 1 else "them"
    return (
        f"No kernel reads {' or '.join(names)}, and trials differ in {them} (here {values}): use {them} as the "
        f"problem passes {them}. If it is wrong then as well, compare the kernel with the problem's statement."
    )


def _by_comparison(
    checked_plan: CheckedPlan, judged: Sequence[Trial], failed: PlannedTrial, of_an_index: bool
) -> str:
    """`of_an_index`: whether the error may be that of a wrong index."""
    problem = checked_plan.problem
    passed = [done for done in judged if done.passed]
    if any(probe.distribution is failed.distribution for probe in (*problem.probes, *problem.edge_probes)):
        return f"This input probes the precision: {failed.distribution.reason}."
    names = ", ".join(failed.values)
    if not passed:
        how = "index by index" if of_an_index else "term by term"
        too = f"; look also at what becomes of {names}" if names else ""
        return f"No trial has passed: compare the kernel with the problem's statement, {how}{too}."
    if names and all(done.scalars != failed.values for done in passed):
        return (
            f"It was right with other values of {names}. Look at what becomes of {names}"
            f"{'; or for what depends on the size' if of_an_index else ''}."
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
        right = f"It was right at {'; '.join(sizes[:_SHOWN_SIZES])}{smaller}.{edge}"
        if not of_an_index:
            return f"{right} That says little: how much is allowed depends on the size, and on what is summed up."
        return f"{right} Look for what depends on the size: tails, strides, the grid's extent."
    same = any(done.sizes == failed.sizes and done.scalars == failed.values for done in passed)
    right = f"The same size was right with other inputs{'' if same else f' and other values of {names}'}."
    typical = failed.distribution is problem.distributions[0]
    return right if typical else f"{right} These inputs are special: {failed.distribution.reason}."


def _by_the_error(problem: Problem, failed: PlannedTrial, mismatch: Mismatch, leaning: float | None) -> Iterator[str]:
    """What a small error means, if it is one; `leaning` as in `Comparison`.

    What is allowed is at most the tolerance's share of the terms and the rounding of a result of 16 bits.
    """
    (dtype,) = (tensor.dtype for tensor in problem.outputs if tensor.name == mismatch.output)
    allowed = failed.tolerance.relative + OWN_ROUNDING.get(dtype, 0.0)
    share = min((mismatch.error or math.inf) * allowed, _of_the_answer(mismatch))
    if 0 < share <= _SMALL_SHARE and leaning is not None and abs(leaning) <= _SMALL_SHARE:
        yield (
            f"The elements are too {'large' if leaning > 0 else 'small'} throughout, by {abs(leaning):.2g} of "
            "themselves on the whole: no wrong index, and nothing that begins at some size. Look for a constant: an "
            "eps that has another value or stands elsewhere (within the root, or behind it), a divisor (n or n - 1), "
            "a factor; then for values that are cut off, or terms that are lost, by a lower precision inside."
        )
    elif 0 < share <= _SMALL_SHARE:
        yield (
            f"The error is at most {share:.2g} of the terms' size, little for a wrong index: look for a lower "
            "precision inside than the problem asks for (half, bfloat16, TF32, approximate functions), also in "
            "accumulators, or a constant (an eps) that differs."
        )


def _of_the_answer(mismatch: Mismatch) -> float:
    """The error over the answer itself, which is one of the terms; infinite where that says nothing."""
    actual, expected = float(mismatch.actual), float(mismatch.expected)
    return abs(actual - expected) / abs(expected) if expected and math.isfinite(actual) else math.inf
