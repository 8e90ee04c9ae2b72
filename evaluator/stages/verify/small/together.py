"""Small trials that are launched one after another and looked at once; what each is put to stays the same.

To wait for a runner and to look at memory takes a thousand times as long as a small kernel does, since the GPU turns
from one process to the other each time. Here it turns once for a dozen runs. A trial is among them where its run
needs nothing of the one before: it has no temporaries, and nothing is run again behind it but the same on other
undefined memory, as of the first few. Such a run comes right behind the trial's own, on copies of the same inputs and
with outputs of its own, and must give the same bits.

Where all is as it should be, that is what each run by itself would have shown. Where anything is not, the runs are
made again one by one, from the first that something is wrong with, and the ruling is that of a run by itself. Where
nothing is wrong then, what was seen stands: outputs that were wrong once are wrong.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from common.contract import Fault, Status, Trial
from evaluator.backends.session import (
    Buffer,
    OutcomesTogether,
    PlanRun,
    RunOutcome,
    RunsTogether,
    Session,
    Wanted,
)
from evaluator.errors import Ruling
from evaluator.problems.problem import Arrays, Problem
from evaluator.stages.launch.checked_plan import SizedPlan
from evaluator.stages.verify.examination import POISON, Examination
from evaluator.stages.verify.findings.fault_rulings import RACE_HINT
from evaluator.stages.verify.instruction_limit import time_limit_s
from evaluator.stages.verify.trial_contents import TWICE_MOST, NextTrial, poisoned
from evaluator.stages.verify.trials import PlannedTrial, tensor_bytes, work_at

_MOST: Final = 12
"""Runs that are made together: a twelfth of a wait is little beside the work of drawing and comparing."""
_MOST_BYTES: Final = 4 << 20
"""Of all tensors of a trial: a dozen of them, with float64 beside, are little memory beside those that are timed."""
_MOST_WORK: Final = 32_000_000
"""Operations and words of memory of a trial: answers of all are computed before the first is looked at."""


def groups(
    problem: Problem, session: Session, trials: Sequence[PlannedTrial], plans: Sequence[SizedPlan]
) -> list[tuple[int, ...]]:
    """The numbers of the trials in their order, those in one tuple that are run together."""
    if not isinstance(session, RunsTogether) or not session.looks or any(_is_run_again(plan) for plan in plans):
        return [(number,) for number in range(len(trials))]
    found: list[tuple[int, ...]] = []
    few: list[int] = []
    for number, (trial, plan) in enumerate(zip(trials, plans, strict=True)):
        if _goes_together(problem, trial, plan):
            few.append(number)
            continue
        found += [*_parts(session, few, plans), (number,)]
        few = []
    return [*found, *_parts(session, few, plans)]


def _is_run_again(plan: SizedPlan) -> bool:
    return bool(plan.orders or plan.prepared or plan.others or plan.host_call)


def _goes_together(problem: Problem, trial: PlannedTrial, plan: SizedPlan) -> bool:
    small = tensor_bytes(problem, trial.sizes) <= _MOST_BYTES and work_at(problem, trial.sizes) <= _MOST_WORK
    return small and bool(plan.steps) and all(buffer.role != "temporary" for buffer in plan.buffers)


def _parts(session: RunsTogether, numbers: Sequence[int], plans: Sequence[SizedPlan]) -> Iterator[tuple[int, ...]]:
    """As many in each as a session takes."""
    while numbers:
        runs = [run for number in numbers[:_MOST] for run in _without_contents(plans[number], number < TWICE_MOST)]
        most = session.most_together(runs[:_MOST])
        behind = itertools.accumulate(2 if number < TWICE_MOST else 1 for number in numbers)
        whole = max(1, sum(last <= most for last in behind))  # a trial by itself is run as one by itself is
        yield tuple(numbers[:whole])
        numbers = numbers[whole:]


def _without_contents(plan: SizedPlan, twice: bool) -> list[PlanRun]:
    buffers = (Buffer(b.name, b.role, b.size_bytes, b.dtype.size_bytes, None) for b in plan.buffers)
    run = PlanRun(tuple(buffers), plan.steps, POISON, 0.0)
    return [run, replace(run, same_as_before=True)] if twice else [run]


@dataclass(frozen=True)
class _Finding:
    """What is wrong with a run, and the trial as a verdict shows it; no ruling where another run has to tell."""

    ruling: Ruling | None
    shown: Trial | None = None
    fault: Fault | None = None


class TrialsTogether:
    """One group of trials."""

    def __init__(self, examination: Examination, trials: Sequence[NextTrial], following: Sequence[NextTrial]) -> None:
        """`following`: the trial that comes next, or those that are run together then."""
        self._examination, self._trials, self._following = examination, trials, following
        self._inputs: list[Arrays] = []
        self.apart = False
        """Whether they were not all as they should be: those that follow are better run one by one."""
        self._runs: tuple[PlanRun, ...] = ()
        self._before, self._twice_before = len(examination.trials), examination.order.twice

    def judge(self) -> Ruling | None:
        """Run all, and record them up to the first that fails. Raises UnsupportedError, InfrastructureError."""
        examination = self._examination
        found = self._run_all()
        ends_badly = found.outcomes[-1].fault is not None
        number = -1
        for place, (run, outcome) in enumerate(zip(self._runs, found.outcomes, strict=False)):
            number += not run.same_as_before
            taken = examination.carry_out(run, made=outcome)
            ended = taken.fault is None
            if ended and found.outside is not None and found.outside[0] == place:
                taken = replace(taken, fault=found.outside[1])
            look = self._finding_again if run.same_as_before else self._finding
            finding = look(number, taken, ends_badly)
            if finding is not None:
                return self._by_itself(number, finding) if ended and not ends_badly else finding.ruling
            if not run.same_as_before:
                trial, sized_plan = self._trials[number]
                examination.costs.append((work_at(examination.problem, trial.sizes), sized_plan.threads, 0))
        return None

    def _run_all(self) -> OutcomesTogether:
        examination, session = self._examination, self._examination.session
        assert isinstance(session, RunsTogether)
        behind = [trial for trial, _ in self._following]
        self._inputs = [examination.contents.inputs(trial, behind) for trial, _ in self._trials]
        runs = examination.order.begin_together(self._trials, self._inputs, self._following)
        limits_s = iter([time_limit_s(examination.problem, trial.sizes) for trial, _ in self._trials])
        limit_s, limited = 0.0, []
        for run in runs:
            limit_s = limit_s if run.same_as_before else min(examination.run_limit_s, next(limits_s))
            limited.append(replace(run, time_limit_s=limit_s))
        self._runs = tuple(limited)
        return session.run_together(self._runs, examination.left_s, self._wanted, examination.order.after_trial)

    def _wanted(self) -> list[Wanted | None]:
        """Of each run; what repeats one is compared with that."""
        wanted = iter(self._examination.contents.wanted_together(self._trials, self._inputs))
        return [None if run.same_as_before else next(wanted) for run in self._runs]

    def _finding(self, number: int, outcome: RunOutcome, ends_badly: bool) -> _Finding | None:
        """What is wrong with the first run of the trial of this number; it is recorded.

        `ends_badly`: a later run broke the context, so none can be made again. What it may have done to this one's
        memory before is reported as its fault; a wrong output is one either way.
        """
        examination, inputs, (trial, sized_plan) = self._examination, self._inputs[number], self._trials[number]
        may_tell = outcome.fault is not None or not ends_badly
        if may_tell and (ruling := examination.intact(outcome, trial, inputs)) is not None:
            return _Finding(ruling, examination.trials[-1], examination.fault)
        outputs = sized_plan.tensors(outcome.contents)
        undecided = poisoned(outcome, outputs, POISON)
        ruling = examination.judge(trial, inputs, outputs, outcome, sure=not undecided)
        if ruling is not None or (undecided and not ends_badly):
            return _Finding(ruling, examination.trials[-1])
        return None

    def _finding_again(self, number: int, outcome: RunOutcome, ends_badly: bool) -> _Finding | None:
        """What is wrong with the run that repeats a trial of which nothing was."""
        examination, inputs, (trial, sized_plan) = self._examination, self._inputs[number], self._trials[number]
        passed = examination.trials.pop()
        may_tell = outcome.fault is not None or not ends_badly
        if may_tell and (ruling := examination.intact(outcome, trial, inputs)) is not None:
            return _Finding(ruling, examination.trials[-1], examination.fault)
        if outcome.looked is None or not outcome.looked.same:
            # No element of the first run was left unwritten. Kernels that add by atomics round otherwise each time.
            outputs = sized_plan.tensors(outcome.contents)
            if not examination.contents.right(trial, inputs, outputs):
                ruling = examination.judge(trial, inputs, outputs, sure=False)
                if ruling is not None:
                    return _Finding(ruling, examination.trials[-1])
                examination.trials.pop()  # an oracle that rounds otherwise each time, at the edge of what is allowed
            examination.deterministic = False
        examination.trials.append(passed)
        return None

    def _by_itself(self, first: int, finding: _Finding) -> Ruling | None:
        """Each run once more, from the first that something was wrong with, and those before it last: where one of
        them wrote to memory of another.
        """
        examination = self._examination
        self.apart, examination.fault = True, None
        examination.order.twice = self._twice_before
        del examination.trials[self._before + first :]
        order = [*range(first, len(self._trials)), *range(first)]
        examination.contents.put_back([self._trials[n][0] for n in order], [self._inputs[n] for n in order])
        for number in order:
            recorded = list(examination.trials)
            ruling = examination.run(*self._trials[number])
            if number < first:
                shown = examination.trials[len(recorded) :] if ruling else recorded[self._before + number :]
                examination.trials[:] = [*recorded[: self._before + number], *shown]
            if ruling is not None:
                return ruling
        if finding.ruling is None or finding.shown is None:
            return None
        examination.trials[self._before + first :] = [finding.shown]
        examination.fault = finding.fault
        return _only_together(finding.ruling)


def _only_together(ruling: Ruling) -> Ruling:
    """A ruling on what was seen once, and not when the same was run again."""
    message = (
        f"{ruling.message} That was seen when several trials were launched one right after another, and not when "
        "each was launched once more by itself."
    )
    # Which launch changed an input is not known, so that it was meant is not shown.
    status = Status.INCORRECT if ruling.status is Status.REJECTED else ruling.status
    return replace(ruling, status=status, message=message, hint=RACE_HINT)
