"""What one evaluation's trials are put to, and what they gave: runs, comparisons, watching, and other orders.

The referee's side: the backend gets one trial's inputs at a time and returns what memory holds afterwards.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from common.contract import Correctness, Fault, HazardWarning, Phase, Settings, Status, Trial
from evaluator.backends.session import PlanRun, RunOutcome, Session, Watch
from evaluator.errors import Ruling
from evaluator.problems.arrays import Array, Rng, to_numpy
from evaluator.problems.problem import Arrays, Sizes
from evaluator.stages.launch.checked_plan import CheckedPlan, SizedPlan
from evaluator.stages.verify.comparison import Comparison, all_written, compare_output, first_difference, in_words
from evaluator.stages.verify.findings.advice import RightWith, advice
from evaluator.stages.verify.findings.fault_rulings import RACE_HINT, bounds_hint, ruling_on
from evaluator.stages.verify.findings.input_check import changed_input
from evaluator.stages.verify.findings.race_checks import Watching, sentence
from evaluator.stages.verify.findings.undefined_memory import (
    UNWRITTEN_HINT,
    doubtful,
    how_to_initialise,
    later_launch,
    origin,
    unconfirmed,
    unset_variable,
)
from evaluator.stages.verify.free_registers import REGISTERS_HINT, FreeRegisters
from evaluator.stages.verify.instruction_limit import instruction_limit, time_limit_s, times_naive
from evaluator.stages.verify.trial_contents import NextTrial, RunOrder, TrialContents, poisoned, surely_right
from evaluator.stages.verify.trials import PlannedTrial, trial_of, work_at
from evaluator.stages.verify.verified import Verified
from evaluator.stages.verify.weak_memory import (
    STRONG,
    WeakMemory,
    adversarial_limit,
    explained,
    explained_by_order,
    is_ours,
    lost_updates,
)

POISON: Final = 0xFF
"""Bytes of undefined memory: NaN in every float format."""
_TWICE_INSTRUCTIONS: Final = 4_000_000
ORDERED_INSTRUCTIONS: Final = (20_000_000, 2_000_000, 200_000, 20_000)
"""Up to how many thread-instructions what is run in other orders takes in the usual one, the most expensive first."""
_OTHER_ORDER_S: Final = 2.0
_ONE_RUN: Final = 0.25
"""Of the time of all runs, which are dozens: what one may take where only time ends it. It holds the whole GPU."""
_OUT_OF_TIME: Final = Fault(kind="watchdog", message="the time of all runs was up")
_PLAIN: Final = 0  # special registers of one multiprocessor, on which all blocks run


class Examination:
    """The trials of one evaluation and what they gave so far."""

    def __init__(
        self,
        checked_plan: CheckedPlan,
        session: Session,
        settings: Settings,
        rng: Rng,
        planned: int,
        seed: int = 0,
    ) -> None:
        self.checked_plan = checked_plan
        self.problem = checked_plan.problem
        self.session = session
        self.rng = rng
        self.contents = TrialContents(self.problem, rng, POISON)
        self.settings = settings
        self.planned = planned
        self.left_out: list[str] = []
        self.costs: list[tuple[float, int, int]] = []
        """Of each run of a trial: the problem's work, the threads of all launches, and thread-instructions."""
        self.left_s = self.limit_s = settings.run_timeout_s
        self.run_limit_s = self.limit_s * (1.0 if session.counts_instructions else _ONE_RUN)
        self.registers = FreeRegisters(session.free_registers, seed)
        self.weak_memory = WeakMemory(session.shares_memory, seed)
        self.instruction_limit, self.trial_limit_s = 0, self.run_limit_s
        """Of a run of the trial that is under way."""
        self.trials: list[Trial] = []
        self.warnings: dict[str, None] = {}
        self.hazards: dict[HazardWarning, None] = {}
        self.printed = ""
        self.fault: Fault | None = None
        self.thread_instructions = self.plain_instructions = 0  # of all runs; but of drawn schedules and weak memory
        self.facts: dict[str, int] = {}
        self.deterministic = True
        self.finished = True  # the last run: memory is as a call leaves it
        self.order_sizes: dict[int, Sizes] = {}
        """By `ORDERED_INSTRUCTIONS`: the largest that costs so much at most."""
        self.order_costs: dict[int, int] = {}
        self.scheduled: dict[str, int] = {}
        """Drawn schedules that were run, by place."""
        self.schedule: int | None = None  # the one that showed something
        self.watching = Watching(seed)
        self.jitter = seed
        self.order = RunOrder(session, self.contents, POISON, seed)
        self._other_poison = POISON
        self.inputs: Arrays = {}
        """Those of the last trial."""

    def verified(self, ruling: Ruling | None) -> Verified:
        """Everything seen, as the verdict will show it."""
        errors = [trial.worst_error for trial in self.trials if trial.passed and trial.worst_error is not None]
        correctness = Correctness(
            passed=ruling is None,
            trials=tuple(self.trials),
            planned_trials=self.planned,
            verification=self.settings.verification,
            left_out=tuple(self.left_out),
            worst_error=max(errors, default=None),
            deterministic=self.deterministic if self.order.twice and ruling is None else None,
            plan_source=self.checked_plan.plan_source,
            binding=self.checked_plan.binding,
            fault=self.fault,
            warnings=tuple(self.warnings),
            hazards=tuple(self.hazards),
            printed=self.printed,
            watched=self.watching.said,
            schedules=tuple(f"{place}: {count}" for place, count in self.scheduled.items()),
            schedule=self.schedule,
        )
        if ruling is not None:
            hints = filter(None, (self.checked_plan.exchanged, self.checked_plan.inferred_advice, ruling.hint))
            hint = "".join(one if one.endswith("\n") else f"{one} " for one in hints)
            ruling = replace(ruling, hint=hint.rstrip() or None)
        return Verified(ruling, correctness, self.thread_instructions, self.facts, self.contents.telling.warnings)

    def run(
        self, trial: PlannedTrial, sized_plan: SizedPlan, least_limit: int = 0, following: Sequence[NextTrial] = ()
    ) -> Ruling | None:
        """One trial: run, judge, and where it is cheap on other undefined memory. `least_limit`: of instructions.

        `following`: the trial that comes next and its plan, or those that are run together then. Their inputs can be
        drawn while this one's program runs, and be there as soon as that was looked at.
        """
        self.instruction_limit = max(instruction_limit(self.problem, trial.sizes), least_limit)
        if not (self.session.counts_instructions or sized_plan.host_call):
            self.trial_limit_s = min(self.run_limit_s, time_limit_s(self.problem, trial.sizes))
        inputs = self.inputs = self.contents.inputs(trial, [one for one, _ in following])
        begins = self.order.begin(trial, sized_plan, following)
        ruling = self._examine(trial, sized_plan, inputs, *begins)
        return self._by_registers(ruling, trial, sized_plan, inputs) if ruling and self.registers.read else ruling

    def _examine(
        self, trial: PlannedTrial, sized_plan: SizedPlan, inputs: Arrays, keeps: bool, elsewhere: int
    ) -> Ruling | None:
        self.watching.undefined = None
        then = self.order.after_first(sized_plan, inputs)
        first = self.execute(
            sized_plan, inputs, POISON, elsewhere=elsewhere, keeps=keeps, wanted_by=trial, following=then
        )
        draw = self.registers.drawn
        if (ruling := self.intact(first, trial, inputs)) is not None:
            return ruling
        self.costs.append((work_at(self.problem, trial.sizes), sized_plan.threads, first.thread_instructions))
        outputs = sized_plan.tensors(first.contents)
        for most in ORDERED_INSTRUCTIONS:  # the largest sizes up to some costs are run in other orders too
            if self.order_costs.get(most, 0) < first.thread_instructions <= most:
                self.order_costs[most], self.order_sizes[most] = first.thread_instructions, trial.sizes
        cheap = first.thread_instructions <= _TWICE_INSTRUCTIONS and self.order.repeats_cheap
        # A NaN keeps its bits through arithmetic: only other undefined memory tells "never written" from "computed
        # from what is undefined".
        if cheap or poisoned(first, outputs, POISON):
            self.order.twice += cheap
            watch = self.watching.plan(first.thread_instructions, not cheap) if self.session.reorders else None
            if (ruling := self._again(trial, sized_plan, inputs, outputs, watch, unwritten_too=cheap)) is not None:
                return ruling
        for _ in range(self.registers.more(first.thread_instructions <= _TWICE_INSTRUCTIONS)):
            other = self.execute(sized_plan, inputs, POISON)
            ruling = self.intact(other, trial, inputs)
            if ruling is None and not self.is_right(other, trial, sized_plan, inputs):
                ruling = self.judge(trial, inputs, sized_plan.tensors(other.contents))
            if ruling is not None:
                return ruling
        ruling = self.judge(trial, inputs, outputs, first)
        if ruling is None:
            return self._weakly(trial, sized_plan, inputs, first.thread_instructions)
        if (keeps or elsewhere != POISON) and not cheap and self.session.reorders:
            shown = self.trials.pop()
            watch = self.watching.plan(first.thread_instructions, explains=True)
            if undefined := self._again(trial, sized_plan, inputs, outputs, watch, unwritten_too=False):
                return undefined
            self.trials.append(shown)
        if self.session.reorders:
            # Also of a large run, of which fewer blocks are watched: what is missing is worth one run more.
            watch = self.watching.plan(first.thread_instructions, explains=True)
            if watch is None and first.thread_instructions > ORDERED_INSTRUCTIONS[0]:
                return ruling
            other = self.execute(sized_plan, inputs, POISON, backwards=True, watch=watch, registers=draw)
            if watch and (race := self.race(other, trial)) is not None:
                return replace(race, message=f"{race.message} {ruling.message}")
            if self.is_right(other, trial, sized_plan, inputs):
                return replace(ruling, hint=f"With blocks and warps run in another order it is right. {RACE_HINT}")
        return ruling

    def _weakly(self, trial: PlannedTrial, sized_plan: SizedPlan, inputs: Arrays, usual: int) -> Ruling | None:
        """A trial that passed, and took `usual` thread-instructions, in memory as weak as may be."""
        self.instruction_limit, lines = adversarial_limit(usual), self.checked_plan.source_lines
        full, interleaves = self.settings.verification == "full", usual <= ORDERED_INSTRUCTIONS[2]
        for draw in self.weak_memory.draws(full, usual, self.plain_instructions, trial.sizes):
            schedule = draw if self.session.schedules and interleaves and draw % 2 else 0
            outcome = self.execute(sized_plan, inputs, POISON, schedule=schedule, weak_memory=draw)
            self.weak_memory.ran(outcome)
            if outcome.fault and is_ours(outcome.fault):
                self.warnings[f"not judged in weak memory: {sentence(outcome.fault, 0)}"] = None
                return None
            if self.is_right(outcome, trial, sized_plan, inputs):
                for lost in lost_updates(outcome, lines):
                    self.hazards[lost] = self.warnings[f"{lost.message}. {lost.remedy}"] = None
                continue
            # Is the same order of blocks and warps wrong already where all see each store at once?
            strong = self.execute(sized_plan, inputs, POISON, schedule=schedule, weak_memory=draw | STRONG)
            memory = is_ours(strong.fault) or self.is_right(strong, trial, sized_plan, inputs)
            shown, explain = (outcome, explained) if memory else (strong, explained_by_order)
            self.trials.pop()
            if (ruling := self.intact(shown, trial, inputs)) is None:
                ruling = self.judge(trial, inputs, sized_plan.tensors(shown.contents), sure=False)
            assert ruling is not None
            ruling, self.fault = explain(ruling, draw, shown, lines)
            return ruling
        return None

    def is_right(self, outcome: RunOutcome, trial: PlannedTrial, sized_plan: SizedPlan, inputs: Arrays) -> bool:
        """Whether it ended, and with an answer that the trial accepts."""
        return outcome.fault is None and self.contents.right(trial, inputs, sized_plan.tensors(outcome.contents))

    def _by_registers(self, ruling: Ruling, trial: PlannedTrial, sized_plan: SizedPlan, inputs: Arrays) -> Ruling:
        """The ruling with what registers that change from run to run have to do with it."""
        if self.fault is not None:  # it ended the session
            hint = f"{ruling.hint or ''} The kernel reads {self.registers}. {REGISTERS_HINT}".strip()
            return replace(ruling, hint=hint) if self.fault.kind not in ("race", "undefined_read") else ruling
        seen: set[int] = set()
        for draw in (_PLAIN, None, None, None) if ruling.status is Status.INCORRECT else ():
            outcome = self.execute(sized_plan, inputs, POISON, registers=draw)
            if outcome.fault is not None:
                return ruling
            outputs = sized_plan.tensors(outcome.contents)
            if self.contents.right(trial, inputs, outputs):
                message = f"The answer depends on {self.registers}: with other values it is right. {ruling.message}"
                return replace(ruling, message=message, hint=REGISTERS_HINT)
            if draw != _PLAIN:
                seen.add(hash(tuple(to_numpy(array).tobytes() for array in outputs.values())))
        if len(seen) < 2:
            return ruling
        message = f"{ruling.message} The same input gave other outputs with other values of {self.registers}."
        return replace(ruling, message=message, hint=REGISTERS_HINT)

    def _again(
        self,
        trial: PlannedTrial,
        sized_plan: SizedPlan,
        inputs: Arrays,
        first: Mapping[str, Array],
        watch: Watch | None,
        unwritten_too: bool,
    ) -> Ruling | None:
        """The same inputs on other undefined memory: what differs was computed from it."""
        draw = self.registers.drawn
        poison, elsewhere = self.order.repeats()
        self._other_poison, then = poison, self.order.after_trial
        outcome = self.execute(
            sized_plan, inputs, poison, watch=watch, elsewhere=elsewhere, same_as=first, following=then
        )
        if watch and outcome.fault is not None and outcome.fault.kind in ("watchdog", "out_of_memory"):  # by watching
            outcome = self.execute(sized_plan, inputs, poison, elsewhere=elsewhere)
        ruling = self.race(outcome, trial) or self.fault_ruling(outcome, trial)
        if ruling is None and not (outcome.looked and outcome.looked.same):
            second = sized_plan.tensors(outcome.contents)
            ruling = self._undefined(first, second, trial, unwritten_too, outcome.first_unwritten)
            free = not self.session.reorders
            if ruling is not None and self.registers.read:
                # Which of both made the difference: the undefined memory, or the special registers?
                outcome = self.execute(sized_plan, inputs, poison, registers=draw, elsewhere=elsewhere)
                same = self.fault_ruling(outcome, trial) or self._undefined(
                    first, sized_plan.tensors(outcome.contents), trial, unwritten_too, outcome.first_unwritten
                )
                ruling, free = same or ruling, same is None
            if ruling is not None and free and all_written(first, second, (POISON, poison)):
                # A device that runs threads in an order of its own gives other roundings each time, where a kernel
                # adds by atomics. Then both answers must be right, and that is all that can be asked; likewise of one
                # that shares out work by the multiprocessor.
                self.deterministic = False
                return None if self.contents.right(trial, inputs, second) else self.judge(trial, inputs, second)
        if ruling is not None:
            self.trials.append(trial_of(trial, False))
        return ruling

    def intact(self, outcome: RunOutcome, trial: PlannedTrial, inputs: Arrays) -> Ruling | None:
        """Whether the run ended well and left its inputs alone; a trial that did not is recorded."""
        kept = outcome.looked is not None and outcome.looked.inputs_kept
        if (ruling := self.fault_ruling(outcome, trial)) is None and not kept:
            ruling = changed_input(outcome.contents, inputs, self.checked_plan)
        if ruling is not None:
            self.trials.append(trial_of(trial, False))
        return ruling

    def race(self, outcome: RunOutcome, trial: PlannedTrial) -> Ruling | None:
        """What watching showed, if it did."""
        if not outcome.watched_blocks[1]:
            return None
        seen = self.watching.look(outcome, trial.place, self.checked_plan.source_lines)
        self.warnings.update(dict.fromkeys(seen.warnings))
        self.hazards.update(dict.fromkeys(seen.hazards))
        self.fault = seen.fault or self.fault
        return seen.ruling

    def execute(
        self,
        sized_plan: SizedPlan,
        inputs: Arrays,
        poison: int,
        backwards: bool = False,
        look: bool = True,
        watch: Watch | None = None,
        registers: int | None = None,
        schedule: int = 0,
        weak_memory: int = 0,
        elsewhere: int | None = None,
        keeps: bool = False,
        wanted_by: PlannedTrial | None = None,
        same_as: Mapping[str, Array] | None = None,
        following: Callable[[], tuple[PlanRun, ...]] | None = None,
        quiet: bool = False,
    ) -> RunOutcome:
        """Run the plan in what is left of the time; `registers` are those of an earlier run, None a new draw.

        `wanted_by`: the trial whose answer it should give, for a session that looks at that itself. `following`: what
        it runs next if all is well.
        """
        # Only the submission's own time counts: drawing inputs and computing answers is ours.
        if self.left_s <= 0:
            return RunOutcome({}, _OUT_OF_TIME)
        buffers = sized_plan.buffers_with(inputs)
        own_s = min(_OTHER_ORDER_S if backwards or schedule or weak_memory else self.limit_s, self.trial_limit_s)
        wanted = partial(self.contents.wanted, wanted_by, sized_plan, inputs) if wanted_by else None
        run = PlanRun(
            buffers,
            sized_plan.steps,
            poison,
            min(self.left_s, own_s),
            backwards,
            look,
            watch=watch,
            jitter=self.jitter,
            registers=self.registers.draw() if registers is None else registers,
            schedule=schedule,
            weak_memory=weak_memory,
            wanted=wanted if self.session.looks else None,
            same_as=same_as if self.session.looks else None,
            following=following if self.session.looks else None,
            quiet=quiet,
            instruction_limit=self.instruction_limit,
            poison_elsewhere=elsewhere,
            keeps=keeps,
            host_call=sized_plan.host_call,
        )
        return self.carry_out(run, ours=bool(watch or schedule or weak_memory))

    def carry_out(self, run: PlanRun, ours: bool = False, made: RunOutcome | None = None) -> RunOutcome:
        """Run it, unless it was `made`, and take account of what it took and said; `ours`: its time is ours."""
        started_s = time.monotonic()
        outcome = self.session.run(run) if made is None else made
        took_s = time.monotonic() - started_s if outcome.own_s is None else outcome.own_s
        self.left_s -= 0 if ours else took_s
        if self.left_s < 0 and outcome.fault is None:
            outcome = replace(outcome, contents={}, fault=_OUT_OF_TIME)
        self.finished = outcome.fault is None
        self.thread_instructions += outcome.thread_instructions
        if not (run.schedule or run.weak_memory):
            self.plain_instructions += outcome.thread_instructions
        if not run.schedule:  # what lanes that have parted do together is warned of where they meet as they can
            self._heed(outcome)
        for name, count in outcome.facts.items():
            self.facts[name] = self.facts.get(name, 0) + count
        self.printed = self.printed or outcome.printed
        return outcome

    def _heed(self, outcome: RunOutcome) -> None:
        """Keep what a run warned of: of what lanes did, one warning of each kind for each line."""
        known = {(hazard.kind, hazard.line) for hazard in self.hazards}
        repeated = {notice.message for notice in outcome.notices if (notice.kind, notice.line) in known}
        for text in outcome.warnings:
            if not any(text.endswith(message) for message in repeated):
                self.warnings[text] = None
        for notice in outcome.notices:
            if (notice.kind, notice.line) not in known:
                told = HazardWarning(kind=notice.kind, message=notice.message, line=notice.line, remedy=notice.remedy)
                self.hazards[told] = None

    def fault_ruling(self, outcome: RunOutcome, trial: PlannedTrial) -> Ruling | None:
        """What a fault means, if there was one."""
        if (fault := outcome.fault) is None:
            return None
        self.fault = fault
        if fault.kind == "instruction_limit":
            fault = fault.model_copy(update={"message": f"{fault.message}, {times_naive(self.problem, trial.sizes)}"})
        ruling = ruling_on(fault, trial.place, self.checked_plan.source_lines, self.limit_s)
        hint = bounds_hint(fault, self._own_names(), self._temporaries())
        return replace(ruling, hint=hint) if hint else ruling

    def _own_names(self) -> set[str]:
        """Of what is no array of the kernel's own."""
        tensors = (*self.problem.inputs, *self.problem.outputs)
        return {tensor.name for tensor in tensors} | self._temporaries() | {"local memory", "parameters"}

    def _undefined(
        self, first: Arrays, second: Arrays, trial: PlannedTrial, unwritten_too: bool, known: Mapping[str, int | None]
    ) -> Ruling | None:
        """The same inputs on two kinds of undefined memory must give the same bits.

        `known`: the first element of each output that nobody wrote, where the second run was watched. What holds the
        pattern of undefined memory, and was written, was copied or computed from such memory.
        """
        found = first_difference(first, second, (POISON, self._other_poison), unwritten_too)
        if found is None:
            return None
        name, element, undefined = found.output, found.element, self.watching.undefined
        if found.unwritten and known.get(name, 0) is not None:
            element = known.get(name) or element
            return Ruling(
                Status.INCORRECT,
                Phase.VERIFY,
                f"At {trial.place}: {name}[{element}] was never written "
                f"({found.count} of {found.total} elements differ between two runs on the same input)."
                f"{self._reader()}",
                undefined.remedy if undefined else UNWRITTEN_HINT,
            )
        unset = self.session.unset_lines if undefined is None else ()
        later = later_launch(undefined, self.checked_plan)
        return Ruling(
            Status.INCORRECT,
            Phase.VERIFY,
            f"At {trial.place}: {name}[{element}] {origin(undefined, name, bool(unset))}: two runs on the "
            f"same input, with different undefined memory, differ in {found.count} of {found.total} "
            f"elements.{self._reader(unset)}",
            how_to_initialise(undefined, name, self._temporaries(), later, bool(unset)),
        )

    def _temporaries(self) -> set[str]:
        return {temporary.name for temporary in self.checked_plan.plan.temporaries}

    def _reader(self, unset: Sequence[int] = ()) -> str:
        """Who read what nobody had written, where a watched run saw it; or the lines that read an unset variable."""
        if unset:
            self.fault = unset_variable(unset)
            return f" The kernel {self.fault.message}."
        if self.watching.undefined is None:
            return ""
        self.fault = self.watching.undefined.fault
        return f" {sentence(self.fault, self.checked_plan.source_lines)}."

    def judge(
        self,
        trial: PlannedTrial,
        inputs: Arrays,
        outputs: Arrays,
        outcome: RunOutcome | None = None,
        sure: bool = True,
    ) -> Ruling | None:
        """Compare with the oracle what the session has not seen to be right in `outcome`, and record the trial.

        `sure`: whether another run, on other undefined memory, has told what was never written.
        """
        if outcome is not None and (right := surely_right(outcome, outputs)):
            self.trials.append(trial_of(trial, True, right))
            return None
        expected = self.contents.answer(trial, inputs)
        comparisons: list[Comparison] = []
        for name, actual in outputs.items():
            found = compare_output(name, actual, expected[name], trial.tolerance, POISON)
            comparisons.append(comparison := found if sure else unconfirmed(found))
            if comparison.mismatch is not None:
                self.trials.append(trial_of(trial, False, comparison))
                return self.incorrect(trial, comparison, self.contents.right_with(trial, inputs, outputs))
        self.trials.append(trial_of(trial, True, max(comparisons, key=lambda one: one.worst_error or 0.0)))
        return None

    def incorrect(self, trial: PlannedTrial, comparison: Comparison, right_with: RightWith | None = None) -> Ruling:
        mismatch = comparison.mismatch
        assert mismatch is not None
        message = f"At {trial.place} with {trial.distribution.name} inputs: {in_words(mismatch, trial.tolerance)}"
        undefined = self.watching.undefined
        if "written" in mismatch.pattern:
            if undefined is not None and undefined.fault.buffer not in self._own_names() - {"local memory"}:
                # It may be stored all right, and be made of what was not.
                message = doubtful(message)
            message += self._reader()
            if undefined is not None:
                return Ruling(Status.INCORRECT, Phase.VERIFY, message, undefined.remedy)
        notes = (f"Note: {warning}." for warning in list(self.warnings)[:2])
        hint = " ".join((advice(self.checked_plan, self.trials, trial, comparison, right_with), *notes))
        return Ruling(Status.INCORRECT, Phase.VERIFY, message, hint)
