"""Which runs of an evaluation follow each other, and what undefined memory holds in each.

A session that looks by itself is told of the run that comes next: it writes that run's contents by the same wait as
it looks at the one before.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from evaluator.backends.session import PlanRun, Session
from evaluator.problems.problem import Arrays, Sizes
from evaluator.stages.launch.checked_plan import SizedPlan
from evaluator.stages.verify.findings.undefined_memory import PoisonTurns
from evaluator.stages.verify.trial_contents import TrialContents
from evaluator.stages.verify.trials import PlannedTrial

TWICE_MOST: Final = 5
"""Trials that are run again on other undefined memory."""

NextTrial: TypeAlias = tuple[PlannedTrial, SizedPlan]
"""A trial that comes next, and its plan."""


class RunOrder:
    """The runs of one evaluation's trials: patterns are drawn in the same order whether they are asked for ahead."""

    def __init__(self, session: Session, contents: TrialContents, poison: int, seed: int) -> None:
        """`poison` is what outputs hold before each first run; `seed` draws all other patterns."""
        self._contents, self._poison = contents, poison
        # Where instructions are counted, their number decides whether a trial is run again.
        self._repeats_known = not session.counts_instructions
        self._turns = PoisonTurns(seed)
        self.twice = 0
        """Trials that were run again so far."""
        self._last_sizes: Sizes = {}  # one of the same sizes begins with what the trial before left
        self._pair: tuple[int, int] | None = None
        """Both patterns of the run that repeats a trial, where they were drawn before its turn."""
        self._next: NextTrial | None = None
        """The trial that comes next, where nothing else is run before it."""
        self._next_elsewhere: int | None = None
        """Its pattern of all but outputs, where that was drawn before its turn."""

    def begin(self, trial: PlannedTrial, sized_plan: SizedPlan, following: NextTrial | None) -> tuple[bool, int]:
        """Of the trial whose turn it is: whether it finds undefined memory as the run before left it, and the pattern
        of all but outputs. `following` comes next.
        """
        keeps, elsewhere = trial.sizes == self._last_sizes, self._next_elsewhere
        if elsewhere is None or self._next is None or self._next[0] is not trial:
            elsewhere = self._poison if keeps else self.poison_elsewhere()
        self._last_sizes, self._next_elsewhere = trial.sizes, None
        # Other orders and later calls come before the next trial, and find memory as this one left it.
        self._next = None if sized_plan.orders or sized_plan.prepared else following
        return keeps, elsewhere

    def poison_elsewhere(self) -> int:
        """Of the next run of a trial; NaN while trials are run twice, so that what is made of it can be told."""
        return self._poison if self.twice < TWICE_MOST else next(self._turns.elsewhere)

    def repeats(self) -> tuple[int, int]:
        """The patterns of outputs and of all else in the run that repeats a trial."""
        pair, self._pair = self._pair or next(self._turns.both), None
        return pair

    def after_first(self, sized_plan: SizedPlan, inputs: Arrays) -> Callable[[], PlanRun | None]:
        """What comes behind the first run of a trial, if all is well."""
        repeated = self._repeats_known and self.twice < TWICE_MOST
        return partial(self._repeated, sized_plan, inputs) if repeated else self.after_trial

    def _repeated(self, sized_plan: SizedPlan, inputs: Arrays) -> PlanRun:
        self._pair = poison, elsewhere = self._pair or next(self._turns.both)
        buffers = sized_plan.buffers_with(inputs)
        return PlanRun(buffers, sized_plan.steps, poison, 0.0, poison_elsewhere=elsewhere)

    def after_trial(self) -> PlanRun | None:
        """What comes behind the last run of a trial, if all is well: the next one's first, once its inputs are drawn.

        The time limit of a run that is only told of is none.
        """
        if self._next is None:
            return None
        trial, sized_plan = self._next
        inputs = self._contents.drawn_ahead(trial)
        if inputs is None:
            return None
        keeps = trial.sizes == self._last_sizes
        if self._next_elsewhere is None:
            self._next_elsewhere = self._poison if keeps else self.poison_elsewhere()
        buffers = sized_plan.buffers_with(inputs)
        return PlanRun(
            buffers, sized_plan.steps, self._poison, 0.0, poison_elsewhere=self._next_elsewhere, keeps=keeps
        )
