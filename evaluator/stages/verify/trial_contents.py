"""Inputs of trials and what their outputs should be; and what a session has seen of outputs by itself.

A session that looks by itself asks for the answer while the program runs. That is when the inputs of the next trial
are drawn too: in the same order as without, so that a seed gives the same contents either way.
"""

from collections.abc import Mapping

from evaluator.backends.session import RunOutcome, Wanted
from evaluator.problems.arrays import Array, Rng
from evaluator.problems.problem import Arrays, Problem
from evaluator.stages.launch.checked_plan import SizedPlan
from evaluator.stages.verify.comparison import SURELY_RIGHT, Comparison, compare_output, is_poison
from evaluator.stages.verify.trials import PlannedTrial


class TrialContents:
    """What trials hold, and what is wanted of them."""

    def __init__(self, problem: Problem, rng: Rng, poison: int) -> None:
        self._problem, self._rng, self._poison = problem, rng, poison
        self._following: PlannedTrial | None = None
        self._drawn: tuple[PlannedTrial, Arrays] | None = None

    def inputs(self, trial: PlannedTrial, following: PlannedTrial | None = None) -> Arrays:
        """A trial's inputs, drawn now unless they were before; `following` comes next."""
        self._following = following
        drawn, self._drawn = self._drawn, None
        if drawn is not None and drawn[0] is trial:
            return drawn[1]
        return trial.distribution.draw(self._rng, trial.sizes)

    def wanted(self, trial: PlannedTrial, sized_plan: SizedPlan, inputs: Arrays) -> Wanted:
        """What the outputs should be; the inputs of the trial that follows are drawn as well."""
        expected = self._problem.oracle(inputs, trial.sizes, **trial.scalars)
        following, self._following = self._following, None
        if following is not None:
            self._drawn = following, following.distribution.draw(self._rng, following.sizes)
        outputs = (buffer for buffer in sized_plan.buffers if buffer.role == "output")
        return Wanted(expected, trial.tolerance, {one.name: (one.dtype, one.shape) for one in outputs})

    def right(self, trial: PlannedTrial, inputs: Arrays, outputs: Mapping[str, Array]) -> bool:
        """Whether these are what the oracle gives."""
        expected = self._problem.oracle(inputs, trial.sizes, **trial.scalars)
        compared = (compare_output(n, a, expected[n], trial.tolerance, self._poison) for n, a in outputs.items())
        return all(comparison.mismatch is None for comparison in compared)


def poisoned(outcome: RunOutcome, outputs: Mapping[str, Array], poison: int) -> bool:
    """Whether an element of an output still consists of poison."""
    if outcome.looked is not None:
        return outcome.looked.poisoned
    return any(bool(is_poison(array, poison).any()) for array in outputs.values())


def surely_right(outcome: RunOutcome, outputs: Mapping[str, Array]) -> Comparison | None:
    """The comparison of outputs all of which the session has seen to be right; None where others have to look."""
    worst = outcome.looked.worst if outcome.looked is not None else None
    # A NaN is not below it.
    if worst and set(worst) == set(outputs) and all(error < SURELY_RIGHT for error in worst.values()):
        return Comparison(max(worst.values()), None)
    return None
