"""Whether what does not end at a large size is slow there, or never ends.

What a right kernel executes grows with the sizes by some power of them: from one size to one of at most twice as
much in every respect, by sixteen times at most. So between the largest published size and the one without an end some
sizes are tried, each a little larger than the one before, and one that all at once takes more than that is `timeout`.
One that grows steadily, until it takes too long for us, is left out.
"""

import math
from collections.abc import Iterator
from typing import Final

from evaluator.errors import Ruling
from evaluator.problems.problem import Problem, Sizes
from evaluator.stages.launch.checked_plan import SizedPlan
from evaluator.stages.verify.examination import POISON, Examination
from evaluator.stages.verify.instruction_limit import instruction_limit
from evaluator.stages.verify.trials import PlannedTrial, trial_of, work_at

_GROWTH: Final = 16
"""Of instructions where no size more than doubles: the fourth power of one size, the square of two."""
_LEAST: Final = 50_000_000
"""Instructions that any size may take: small ones depend on more than their growth."""
_MOST: Final = 2_500_000_000
"""As many as are run of a large size at all."""
_MOST_S: Final = 8.0
_MOST_STEPS: Final = 12


def where_it_breaks_off(examination: Examination, trial: PlannedTrial) -> Ruling | None:
    """The ruling on a size below that of `trial`, which did not end; None where all grows steadily up to there."""
    problem, cost = examination.problem, 0
    left_s, examination.left_s = examination.left_s, min(_MOST_S, examination.left_s)
    try:
        for sizes in _steps(problem, trial.sizes):
            sized_plan = examination.checked_plan.at(sizes)
            limit = max(_LEAST, _GROWTH * cost) if cost else instruction_limit(problem, sizes)
            if limit > _MOST or not isinstance(sized_plan, SizedPlan):
                return None
            step = PlannedTrial(
                sizes,
                problem.distributions[0],
                problem.tolerance,
                True,
                {},
                "edge",
                published=problem.published_scalars,
            )
            examination.instruction_limit = limit
            outcome = examination.execute(
                sized_plan, step.distribution.draw(examination.rng, sizes), POISON, registers=0
            )
            if outcome.fault is not None and outcome.fault.kind == "watchdog":
                return None
            ruling = examination.fault_ruling(outcome, step)
            if ruling is not None:
                examination.trials.append(trial_of(step, False))
                return ruling
            cost = outcome.thread_instructions
    finally:
        examination.left_s += left_s - min(_MOST_S, left_s)
    return None


def _steps(problem: Problem, last: Sizes) -> Iterator[Sizes]:
    """From the largest published size to `last`, which is not among them, in even steps of the logarithm."""
    first = max(problem.example_sizes, key=lambda sizes: work_at(problem, sizes))
    most = max(abs(math.log2(last[name] / first[name])) for name in first)
    count = min(_MOST_STEPS, max(2, math.ceil(most)))
    yield first
    if problem.serves.admits(above := {name: size + 1 for name, size in first.items()}):
        yield above
    for step in range(1, count):
        share = step / count
        yield {name: max(1, round(first[name] ** (1 - share) * last[name] ** share)) for name in first}
