"""The same program with blocks and warps in other orders: the last ones first, and in drawn schedules.

Last of all, on fresh inputs of sizes that were right in the usual order. Where blocks share memory on purpose, every
second schedule has memory as weak as the PTX ISA allows it too (weak_memory.py).

What host code gives to several streams is run in other orders of its steps too, with each trial; and a call that
changes what an earlier one prepared is run again behind itself.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from common.contract import Fault, Status
from evaluator.errors import Ruling
from evaluator.problems.problem import Arrays, Sizes
from evaluator.stages.launch.checked_plan import SizedPlan
from evaluator.stages.verify.comparison import compare_output
from evaluator.stages.verify.examination import ORDERED_INSTRUCTIONS, POISON, Examination
from evaluator.stages.verify.findings.fault_rulings import RACE_HINT
from evaluator.stages.verify.findings.race_checks import sentence
from evaluator.stages.verify.findings.undefined_memory import unconfirmed
from evaluator.stages.verify.instruction_limit import instruction_limit
from evaluator.stages.verify.trials import PlannedTrial, trial_of
from evaluator.stages.verify.weak_memory import (
    SCHEDULE_HINT,
    STRONG,
    adversarial_limit,
    budget,
    cost_of,
    expected_cost,
    explained,
    is_ours,
)

_BACKWARDS: Final = ORDERED_INSTRUCTIONS[:2]
_SCHEDULED: Final = ORDERED_INSTRUCTIONS[1:]
_DRAWS: Final = 8
"""Schedules of each size."""
_WAITING_HINT: Final = (
    "What a thread waits for must come in any order of blocks and warps, and stay until it is seen: reset a counter "
    "or a flag only when nobody waits for it any more (or let it count on), take several locks in one order, and let "
    "nobody wait for a thread that may wait for it."
)

_STREAM_HINT: Final = (
    "Let the stream that needs the result wait for it: cudaEventRecord(event, first) and cudaStreamWaitEvent(second, "
    "event), or launch both on one stream."
)

_LATER_CALL_HINT: Final = (
    "Compute the outputs anew at each call, whatever was left in memory that is kept: the same addresses hold other "
    "inputs then; and leave there what the next call needs."
)


def other_orders(examination: Examination) -> Ruling | None:
    """What other orders show: a race that the usual order hides, or an answer that depends on who comes first."""
    return _backwards(examination) or _schedules(examination)


def _backwards(examination: Examination) -> Ruling | None:
    """Blocks and warps last first.

    A kernel that waits for earlier blocks (as decoupled look-back does) may never end this way: CUDA promises no
    order, but GPUs start blocks in theirs, so that is a note and not a fault.
    """
    for cost, sizes in examination.order_sizes.items():
        if cost not in _BACKWARDS:
            continue
        sized_plan, trial = _again(examination, sizes)
        inputs = trial.distribution.draw(examination.rng, sizes)
        watch = examination.watching.plan(examination.order_costs[cost])
        outcome = examination.execute(sized_plan, inputs, POISON, backwards=True, watch=watch)
        race = examination.race(outcome, trial)
        if race is not None:
            examination.trials.append(trial_of(trial, False))
            return race
        if outcome.fault is not None:
            told = f"not judged with blocks in another order: {sentence(outcome.fault, 0)}"
            examination.warnings[told] = None
            return None
        expected = examination.problem.oracle(inputs, sizes)
        for name, actual in sized_plan.tensors(outcome.contents).items():
            comparison = unconfirmed(compare_output(name, actual, expected[name], trial.tolerance, POISON))
            if comparison.mismatch is not None:
                examination.trials.append(trial_of(trial, False, comparison))
                ruling = examination.incorrect(trial, comparison)
                message = f"With blocks and warps run in another order. {ruling.message}"
                return replace(ruling, message=message, hint=RACE_HINT)
    return None


def _schedules(examination: Examination) -> Ruling | None:
    """Drawn schedules of what depends on them: every answer must be right."""
    if not examination.session.schedules or not examination.jitter:
        return None
    left, places = (
        budget(examination.plain_instructions),
        [cost for cost in _SCHEDULED if cost in examination.order_sizes],
    )
    shares = examination.session.shares_memory
    for cost in sorted(places):
        sizes = examination.order_sizes[cost]
        sized_plan, trial = _again(examination, sizes)
        drawn = [trial.distribution.draw(examination.rng, sizes) for _ in range(2)]
        expectations = [examination.problem.oracle(inputs, sizes) for inputs in drawn]
        usual = examination.order_costs[cost]
        asked = examination.settings.schedule
        # Where one is asked for, it runs on fresh memory and on what the one before left.
        for turn, draw in enumerate(_drawn(examination.jitter, trial.place) if asked is None else 3 * (asked,)):
            weak = draw if shares and draw % 2 else 0
            if asked is None and weak and expected_cost(usual, weak=True) > left:
                weak = 0
            if asked is None and expected_cost(usual, weak=False) > left:
                return None
            examination.instruction_limit = adversarial_limit(usual)
            # Every third and fourth on what the one before left, of other inputs: flags that nobody clears are set.
            inputs, expected = drawn[turn % 4 == 2], expectations[turn % 4 == 2]
            outcome = examination.execute(
                sized_plan, inputs, POISON, schedule=draw, weak_memory=weak, keeps=turn % 4 > 1
            )
            left -= cost_of(outcome, bool(weak))
            examination.scheduled[trial.place] = examination.scheduled.get(trial.place, 0) + 1
            if outcome.fault is not None and is_ours(outcome.fault):
                # Which it may be for want of luck: who waits takes instructions, and time, from those that do not.
                told = f"not judged in schedule {draw} at {trial.place}: {sentence(outcome.fault, 0)}"
                examination.warnings[told] = None
                if not weak:
                    return None
                shares = False
                continue
            ruling = examination.fault_ruling(outcome, trial)
            comparison = None
            for name, actual in () if ruling else sized_plan.tensors(outcome.contents).items():
                comparison = unconfirmed(compare_output(name, actual, expected[name], trial.tolerance, POISON))
                if comparison.mismatch is not None:
                    ruling = examination.incorrect(trial, comparison)
                    break
            if ruling is not None:
                examination.trials.append(trial_of(trial, False, comparison))
                examination.schedule = draw
                ruling = replace(ruling, hint=_hint(ruling, outcome.fault))
                if weak and not _is_wrong_at_once(examination, sized_plan, trial, inputs, draw):
                    lines = examination.checked_plan.source_lines
                    ruling, examination.fault = explained(ruling, draw, outcome, lines, ruling.hint)
                message = f"With blocks and warps interleaved as schedule {draw} has them. {ruling.message}"
                return replace(ruling, message=message)
    return None


def _is_wrong_at_once(
    examination: Examination, sized_plan: SizedPlan, trial: PlannedTrial, inputs: Arrays, draw: int
) -> bool:
    """Whether the same order is wrong where every store is seen at once: then memory is not to blame."""
    outcome = examination.execute(sized_plan, inputs, POISON, schedule=draw, weak_memory=draw | STRONG)
    return not (is_ours(outcome.fault) or examination.is_right(outcome, trial, sized_plan, inputs))


def _hint(ruling: Ruling, fault: Fault | None) -> str | None:
    if ruling.status is Status.INCORRECT:
        return SCHEDULE_HINT
    return _WAITING_HINT if fault is not None and fault.kind == "endless_wait" else ruling.hint


def _again(examination: Examination, sizes: Sizes) -> tuple[SizedPlan, PlannedTrial]:
    """A trial of the usual kind at sizes that were right."""
    sized_plan = examination.checked_plan.at(sizes)
    assert isinstance(sized_plan, SizedPlan)
    problem = examination.problem
    examination.instruction_limit = instruction_limit(problem, sizes)
    return sized_plan, PlannedTrial(
        sizes, problem.distributions[0], problem.tolerance, True, published=problem.published_scalars
    )


def _drawn(seed: int, place: str) -> Iterator[int]:
    """Draws of one place, even and odd ones in turn, never 0."""
    for number in range(_DRAWS):
        digest = hashlib.sha256(f"schedule {seed} {place} {number}".encode()).digest()
        random = int.from_bytes(digest[:4], "little")  # short enough to be named
        yield random | 1 if number % 2 else random & ~1 or 2


def other_stream_orders(examination: Examination, trial: PlannedTrial, sized_plan: SizedPlan) -> Ruling | None:
    """A trial that was right, on the same inputs in each order that the streams of its host code leave open."""
    for order in sized_plan.orders:
        turned = replace(sized_plan, steps=tuple(sized_plan.steps[step] for step in order.steps), orders=())
        outcome = examination.execute(turned, examination.inputs, POISON)
        if is_ours(outcome.fault):
            assert outcome.fault is not None
            told = f"not judged with streams in another order: {sentence(outcome.fault, 0)}"
            examination.warnings[told] = None
            return None
        if examination.is_right(outcome, trial, turned, examination.inputs):
            continue
        examination.trials.pop()  # as it passed
        ruling = examination.intact(outcome, trial, examination.inputs)
        if ruling is None:
            ruling = examination.judge(trial, examination.inputs, turned.tensors(outcome.contents), sure=False)
        if ruling is not None:
            message = f"On a GPU {order.said}. So run, the answer is wrong. {ruling.message}"
            return replace(ruling, status=Status.INCORRECT, message=message, hint=_STREAM_HINT)
    return None


def later_call(examination: Examination, trial: PlannedTrial, sized_plan: SizedPlan) -> Ruling | None:
    """A call behind a trial that was right: the same addresses, other inputs, and memory as the last call left it.

    So a kernel is found out that knows an input again by its address.
    """
    inputs = trial.distribution.draw(examination.rng, trial.sizes)
    alone = replace(sized_plan, steps=sized_plan.steps[sized_plan.prepared :], orders=(), prepared=0)
    outcome = None
    if not examination.finished:  # what was run last, after the trial itself, was broken off
        outcome = examination.execute(sized_plan, examination.inputs, POISON)
    if outcome is None or outcome.fault is None:
        outcome = examination.execute(alone, inputs, POISON, elsewhere=POISON, keeps=True)
    if is_ours(outcome.fault):
        assert outcome.fault is not None
        examination.warnings[f"not judged in a later call: {sentence(outcome.fault, 0)}"] = None
        return None
    passed = examination.trials.pop()
    ruling = examination.intact(outcome, trial, inputs)
    if ruling is None:
        ruling = examination.judge(trial, inputs, alone.tensors(outcome.contents), sure=False)
    if ruling is None:
        examination.trials[-1] = passed
        return None
    message = f"In a later call in one process, with other inputs at the same addresses. {ruling.message}"
    return replace(ruling, message=message, hint=_LATER_CALL_HINT)
