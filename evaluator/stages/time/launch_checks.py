"""Which timed launches are verified, and their outputs until they are compared with the oracle.

What memory holds is looked at right after such a launch. What its outputs should be is worked out later, when the GPU
is not needed for oneself any more: the oracle may take as long as ten launches.
"""

import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from evaluator.backends.session import ComparesOutputs, RunOutcome
from evaluator.errors import Ruling
from evaluator.problems.problem import Arrays
from evaluator.stages.launch.checked_plan import SizedPlan
from evaluator.stages.verify.examination import Examination
from evaluator.stages.verify.trials import PlannedTrial

_GAP: Final = 6
"""At first every third or fourth launch is verified: a forger, who must lie in half of all, is seen in any ten with
five chances of six, in 50 launches with 99.8 %."""
_CHECKS_S: Final = 0.5
"""Each time that the oracle has taken so long in all, gaps become longer by their first length."""


@dataclass(frozen=True)
class _KeptLaunch:
    """A launch that was looked at and is not compared yet."""

    inputs: Arrays
    outputs: Arrays
    outcome: RunOutcome


class LaunchChecks:
    """The verified ones among the launches of one plan at one size."""

    def __init__(self, examination: Examination, trial: PlannedTrial, sized_plan: SizedPlan, room_bytes: int) -> None:
        """`room_bytes`: for launches that are not compared yet, and for inputs that are drawn ahead."""
        self._examination, self._trial, self._sized_plan = examination, trial, sized_plan
        self._room_bytes = room_bytes
        self.input_bytes = sum(one.size_bytes for one in sized_plan.buffers if one.role == "input")
        self._launch_bytes = sum(one.size_bytes for one in sized_plan.buffers if one.role != "temporary")
        self._kept: deque[_KeptLaunch] = deque()
        self._compared, self._compared_s = 0, 0.0
        self._left_out = 0
        """Launches before the next one that is verified."""

    @property
    def count(self) -> int:
        """How many launches were verified; those that are kept will be."""
        return self._compared + len(self._kept)

    @property
    def is_next(self) -> bool:
        """Whether the next launch is verified: secret, because a kernel could tell the timed ones by their size."""
        return self._left_out == 0

    def begin(self, is_long: bool) -> None:
        """Behind the first launch, which is verified in any case. `is_long`: it took long, so the next one is too.

        Each of the launches that follow is verified with the same chance, as if others had gone before them: what
        is left of a gap that one comes into the middle of is the lesser of two different numbers.
        """
        self._left_out = 0 if is_long else min(secrets.SystemRandom().sample(range(self._longest(0) + 1), 2))

    def launched(self, counted: int, is_long: bool) -> None:
        """Behind every other launch, before it is counted; `counted` were. `is_long`: looking costs little beside it.

        How many launches are left unverified: few at first, and later so many that the second half of all of them,
        which a median could be made of, still has some that are verified. Where an answer takes long to compute, as
        by a reference on the processor, ever fewer are verified.
        """
        if is_long and self._cost_s < _CHECKS_S:
            self._left_out = 0
        elif self._left_out == 0:
            self._left_out = secrets.randbelow(self._longest(counted))
        else:
            self._left_out -= 1

    def keep(self, inputs: Arrays, outcome: RunOutcome, ahead: int) -> Ruling | None:
        """Compare this launch when there is time, or now where no room is left beside `ahead` inputs.

        It has ended well, and its inputs are what they were.
        """
        self._kept.append(_KeptLaunch(inputs, self._sized_plan.tensors(outcome.contents), outcome))
        held_bytes = len(self._kept) * self._launch_bytes + ahead * self.input_bytes
        return self.settle() if held_bytes > self._room_bytes else None

    def settle(self, between: Callable[[], None] = lambda: None) -> Ruling | None:
        """Compare all that were kept, in their order, up to the first that is wrong; `between` two of them, nothing
        of ours is queued on the device.
        """
        while self._kept:
            one = self._kept.popleft()
            began_s = time.monotonic()
            self._compared += 1
            ruling = self._judged(one)
            self._compared_s += time.monotonic() - began_s
            if ruling is not None:
                self._kept.clear()
                return ruling
            between()
        return None

    def _judged(self, one: _KeptLaunch) -> Ruling | None:
        examination, problem, trial = self._examination, self._examination.problem, self._trial
        if problem.sketch is not None:
            found = problem.sketch(examination.rng, one.inputs, one.outputs, trial.sizes, problem.tolerance)
            # What the sketch finds is looked at element by element, so that the verdict can say where it is wrong.
            return None if found.passed else examination.judge(trial, one.inputs, one.outputs)
        outcome = one.outcome
        if outcome.looked is not None and isinstance(examination.session, ComparesOutputs):
            wanted = examination.contents.wanted(trial, self._sized_plan, one.inputs)
            worst = examination.session.compared(one.outputs, wanted)
            outcome = replace(outcome, looked=replace(outcome.looked, worst=worst))
        return examination.judge(trial, one.inputs, one.outputs, outcome)

    @property
    def _cost_s(self) -> float:
        """What all take together, those that are kept like those before."""
        return self._compared_s * self.count / self._compared if self._compared else 0.0

    def _longest(self, counted: int) -> int:
        """One more than the longest gap."""
        dear = 1.0 + self._cost_s / _CHECKS_S
        return max(_GAP, int(max(_GAP, counted // 2) * dear))
