"""Small trials that are launched one after another and looked at once; what each is put to stays the same.

To wait for a runner and to look at memory takes a thousand times as long as a small kernel does, since the GPU turns
from one process to the other each time. Here it turns once for a dozen trials. A trial is among them where its run
needs nothing of the one before: the first few, which are run on other undefined memory too, are over; it has no
temporaries; and nothing is run again behind it.

Where all is as it should be, that is what each run by itself would have shown. Where anything is not, the runs are
made again one by one, from the first that something is wrong with, and the ruling is that of a run by itself. Where
nothing is wrong then, what was seen stands: outputs that were wrong once are wrong.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from common.contract import Fault, Status, Trial
from evaluator.backends.session import Buffer, OutcomesTogether, PlanRun, RunOutcome, RunsTogether, Session
from evaluator.errors import Ruling
from evaluator.problems.problem import Arrays, Problem
from evaluator.stages.launch.checked_plan import SizedPlan
from evaluator.stages.verify.examination import POISON, Examination
from evaluator.stages.verify.findings.fault_rulings import RACE_HINT
from evaluator.stages.verify.instruction_limit import time_limit_s
from evaluator.stages.verify.trial_contents import TWICE_MOST, NextTrial, poisoned
from evaluator.stages.verify.trials import PlannedTrial, tensor_bytes, work_at

_MOST: Final = 12
"""Trials that are run together: a twelfth of a wait is little beside the work of drawing and comparing."""
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
        if number >= TWICE_MOST and _goes_together(problem, trial, plan):
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
        first = [_without_contents(plans[number]) for number in numbers[:_MOST]]
        most = session.most_together(first)
        yield tuple(numbers[:most])
        numbers = numbers[most:]


def _without_contents(plan: SizedPlan) -> PlanRun:
    buffers = (Buffer(b.name, b.role, b.size_bytes, b.dtype.size_bytes, None) for b in plan.buffers)
    return PlanRun(tuple(buffers), plan.steps, POISON, 0.0)


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
        self._before = len(examination.trials)

    def judge(self) -> Ruling | None:
        """Run all, and record them up to the first that fails. Raises UnsupportedError, InfrastructureError."""
        examination = self._examination
        found = self._run_all()
        ends_badly = found.outcomes[-1].fault is not None
        for number, outcome in enumerate(found.outcomes):
            taken = examination.carry_out(self._runs[number], made=outcome)
            finding = self._finding(number, taken, found.outside, ends_badly)
            if finding is not None:
                return finding.ruling if ends_badly or taken.fault is not None else self._by_itself(number, finding)
            trial, sized_plan = self._trials[number]
            examination.costs.append((work_at(examination.problem, trial.sizes), sized_plan.threads, 0))
        return None

    def _run_all(self) -> OutcomesTogether:
        examination, session = self._examination, self._examination.session
        assert isinstance(session, RunsTogether)
        behind = [trial for trial, _ in self._following]
        self._inputs = [examination.contents.inputs(trial, behind) for trial, _ in self._trials]
        runs = examination.order.begin_together(self._trials, self._inputs, self._following)
        limits_s = [time_limit_s(examination.problem, trial.sizes) for trial, _ in self._trials]
        self._runs = tuple(
            replace(run, time_limit_s=min(examination.run_limit_s, limit_s))
            for run, limit_s in zip(runs, limits_s, strict=True)
        )
        return session.run_together(
            self._runs,
            examination.left_s,
            partial(examination.contents.wanted_together, self._trials, self._inputs),
            examination.order.after_trial,
        )

    def _finding(
        self, number: int, outcome: RunOutcome, outside: tuple[int, Fault] | None, ends_badly: bool
    ) -> _Finding | None:
        """What is wrong with the run of this number; its trial is recorded.

        `ends_badly`: a later run broke the context, so none can be made again. What it may have done to this one's
        memory before is reported as its fault; a wrong output is one either way.
        """
        examination, inputs, (trial, sized_plan) = self._examination, self._inputs[number], self._trials[number]
        if outcome.fault is None and outside is not None and outside[0] == number:
            outcome = replace(outcome, fault=outside[1])
        may_tell = outcome.fault is not None or not ends_badly
        if may_tell and (ruling := examination.intact(outcome, trial, inputs)) is not None:
            return _Finding(ruling, examination.trials[-1], examination.fault)
        outputs = sized_plan.tensors(outcome.contents)
        undecided = poisoned(outcome, outputs, POISON)
        ruling = examination.judge(trial, inputs, outputs, outcome, sure=not undecided)
        if ruling is not None or (undecided and not ends_badly):
            return _Finding(ruling, examination.trials[-1])
        return None

    def _by_itself(self, first: int, finding: _Finding) -> Ruling | None:
        """Each run once more, from the first that something was wrong with, and those before it last: where one of
        them wrote to memory of another.
        """
        examination = self._examination
        self.apart, examination.fault = True, None
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
