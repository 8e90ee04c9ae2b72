"""Verification: fresh inputs at known and hidden sizes, hostile values and probes, judged against the float64 oracle.

The referee's side. It holds seeds, inputs and answers; the backend gets one trial's inputs at a time and returns what
memory holds afterwards. Every trial has its own content, so nothing that was seen before helps.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from common.contract import Settings
from evaluator.backends.session import Session
from evaluator.errors import Ruling
from evaluator.problems.arrays import Rng
from evaluator.stages.launch.checked_plan import CheckedPlan, SizedPlan
from evaluator.stages.verify.examination import Examination
from evaluator.stages.verify.orders import later_call, other_orders, other_stream_orders
from evaluator.stages.verify.small.together import TrialsTogether, groups
from evaluator.stages.verify.trial_contents import NextTrial
from evaluator.stages.verify.trials import PlannedTrial, fits
from evaluator.stages.verify.verified import Verified


def verify(
    checked_plan: CheckedPlan,
    session: Session,
    settings: Settings,
    rng: Rng,
    trials: Sequence[PlannedTrial],
    progress: Callable[[int, int], None] = lambda done, planned: None,
    seed: int = 0,
    beyond: "BeyondUsual | None" = None,
    left_out: Sequence[str] = (),
) -> Verified:
    """Run `trials` on `session`, up to the first that fails, with contents from `rng`.

    `seed` (secret, below 2^62) draws which blocks are watched, and where within their documented error approximate
    instructions lie; 0 has them computed accurately. `beyond` judges the trials beyond the usual ones, which come
    last; without it they are run as all others. `left_out`: what a full verification would have, and these trials
    lack.
    Raises UnsupportedError, InfrastructureError.
    """
    refused = _timed_launch_refused(checked_plan, settings)
    if refused is not None:
        return Verified(refused, None)
    concretes: list[SizedPlan] = []
    for trial in trials:
        sized_plan = checked_plan.at(trial.sizes, settings.memory_bytes, trial.scalars)
        if isinstance(sized_plan, Ruling):
            return Verified(sized_plan, None)
        concretes.append(sized_plan)
    examination = Examination(checked_plan, session, settings, rng, len(trials), seed)
    examination.left_out = list(left_out)
    usual = len(trials) if beyond is None else sum(not trial.beyond for trial in trials)
    planned = list(zip(trials, concretes, strict=True))
    waiting = deque(groups(checked_plan.problem, session, trials, concretes))
    while waiting:
        numbers = waiting.popleft()
        progress(numbers[0], len(trials))
        following = [planned[number] for number in waiting[0]] if waiting else []
        if len(numbers) > 1:
            together = TrialsTogether(examination, [planned[number] for number in numbers], following)
            ruling = together.judge()
            for number in numbers[1:] if ruling is None else ():
                progress(number, len(trials))
            if together.apart:
                waiting = deque((number,) for each in waiting for number in each)
        else:
            if numbers[0] == usual and session.reorders and (ruling := other_orders(examination)):
                return examination.verified(ruling)
            judge = None if numbers[0] < usual else beyond
            ruling = _judged_in_all_calls(examination, *planned[numbers[0]], judge, following)
        if ruling is not None:
            return examination.verified(ruling)
    progress(len(trials), len(trials))
    reorders = session.reorders and usual == len(trials)
    return examination.verified(other_orders(examination) if reorders else None)


def _judged_in_all_calls(
    examination: Examination,
    trial: PlannedTrial,
    sized_plan: SizedPlan,
    beyond: "BeyondUsual | None",
    following: Sequence[NextTrial],
) -> Ruling | None:
    """One trial, and in each call of the host code that does something else."""
    ruling = _judged(examination, trial, sized_plan, beyond, () if sized_plan.others else following)
    if ruling is None and sized_plan.others:
        ruling = _in_other_calls(examination, trial, sized_plan, beyond)
    return ruling


def _judged(
    examination: Examination,
    trial: PlannedTrial,
    sized_plan: SizedPlan,
    beyond: "BeyondUsual | None",
    following: Sequence[NextTrial] = (),
) -> Ruling | None:
    """One trial of one plan. `beyond` judges it where it is none of the usual ones."""
    if beyond is not None:
        return beyond.judge(examination, trial, sized_plan)
    ruling = examination.run(trial, sized_plan, following=following)
    if ruling is None and sized_plan.orders:
        ruling = other_stream_orders(examination, trial, sized_plan)
    if ruling is None and sized_plan.prepared:
        ruling = later_call(examination, trial, sized_plan)
    return ruling


def _in_other_calls(
    examination: Examination, trial: PlannedTrial, sized_plan: SizedPlan, beyond: "BeyondUsual | None"
) -> Ruling | None:
    """A trial that passed, with new contents in each call of the host code that does something else."""
    for other in sized_plan.others:
        passed = examination.trials.pop()
        ruling = _judged(examination, trial, other, beyond)
        if ruling is not None:
            message = f"In its {other.call} in one process, which does other things than its {sized_plan.call}. "
            return replace(ruling, message=message + ruling.message)
        examination.trials[-1] = passed
    return None


class BeyondUsual(Protocol):
    """Judges edges and the size of the timing, where all of them in the usual way would take too long."""

    def judge(self, examination: "Examination", trial: PlannedTrial, sized_plan: SizedPlan) -> Ruling | None:
        """Run it as far as it can be afforded. Raises UnsupportedError, InfrastructureError."""


def _timed_launch_refused(checked_plan: CheckedPlan, settings: Settings) -> Ruling | None:
    """Why the plan cannot be launched at the size of the timing, where it cannot."""
    problem, sizes = checked_plan.problem, checked_plan.problem.timing_sizes
    # Where the tensors leave no room, that is no fault of the submission, and only the launches are looked at.
    room = settings.memory_bytes if fits(problem, sizes, settings) else 1 << 62
    sized_plan = checked_plan.at(sizes, room)
    return sized_plan if isinstance(sized_plan, Ruling) else None
