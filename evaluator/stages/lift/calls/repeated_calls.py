"""The calls of host code in one process, and the plan that stands for each of them.

The first call of a process may do what no later one does: allocate, upload tables, zero what kernels then reset by
themselves; and it may leave what later ones only look up. So the plan is that of a later call: with the *preparation*
before it, which is what was done earlier to memory that this call goes on using, if it hangs on no tensor, nor on
what an earlier step made of one. What hangs on one is not repeated: that memory has undefined contents, and a call
that needs them is found to be wrong.

Memory that was prepared and that the call changes again is state from call to call (a counter that kernels reset, an
accumulator that they do not). A plan with the preparation before it would always meet it fresh. So there the call is
carried out twice, first on stand-ins of the tensors: what the first leaves behind is what the second meets; and where
calls take buffers in turn, with those before it in between. How many steps come before the call itself is noted, so
that it can be carried out once more by itself, on the same tensors.

Calls may differ: in how much they do, in what their streams leave open, in what was prepared. Each kind of them has a
plan, and all have to be right: that of the first too, where it does more than the others, or less; and that of a call
behind one at other sizes, where that leaves it something else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from common.contract import Status
from common.launch_plan import MAX_RECORDED_STEPS, Copy, Fill, RecordedLaunchPlan, Step, Temporary
from evaluator.backends.session import Entry
from evaluator.problems.problem import Problem
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.calls.call_kinds import ReadCall, kinds_of_later_calls
from evaluator.stages.lift.calls.preparation import EarlierPreparation, EarlierSteps
from evaluator.stages.lift.calls.process_calls import BEHIND, ProcessCalls
from evaluator.stages.lift.calls.recorded_steps import PlanReader
from evaluator.stages.lift.calls.returned import unstable
from evaluator.stages.lift.calls.stand_ins import StandIns
from evaluator.stages.lift.memory_uses import MemoryUses
from evaluator.stages.lift.recording import ORDINALS, TENSORS_OF_CALLS, RecordedLaunch, Recording


@dataclass(frozen=True)
class CallForm:
    """What all calls of one program at one set of sizes have in common."""

    problem: Problem
    entries: Sequence[Entry]
    uses: MemoryUses
    """Those of the entries."""
    initial: Sequence[tuple[str, str]] = ()
    """Before each call the second of two tensors is a copy of the first, or zeros where that has no name; these only
    if the source `adds` to memory, or the first kernel that uses the output may look at it: to fill what is
    overwritten would cost time."""
    returned: Mapping[str, tuple[int, ...]] | None = None
    """The shapes of outputs that the host code has to return."""
    adds: bool = True


class RepeatedCalls:
    """Both recordings of one process's calls. Everything raises LiftRefusedError where they are no plan."""

    def __init__(
        self, form: CallForm, first: Recording, second: Recording, sets: Sequence[int] = TENSORS_OF_CALLS
    ) -> None:
        """`sets`: which set of tensors each call has."""
        self.form, self.sets = form, sets
        self.first, self.second = first, second
        problem = form.problem
        self.tensors = [*problem.inputs, *problem.outputs]
        begins = [one.first_step for one in first.calls]
        if len(begins) < len(sets) or len(first.buffers) < 2 * len(self.tensors):
            raise unstable("it is not called as often as it should be")
        if begins != [one.first_step for one in second.calls] or len(first.steps) != len(second.steps):
            raise unstable("it does another number of launches, fills and copies")
        if begins != sorted(begins) or begins[-1] > len(first.steps):
            raise unstable("its calls do not follow one another")
        self._last = len(sets) - 1
        self._earlier = EarlierSteps(first, second, form.uses, len(self.tensors), sets[0])
        self._read: dict[int, ReadCall] = {}
        self._preparations: dict[int, EarlierPreparation] = {}
        self._before: dict[int, list[Step]] = {}
        names = [tensor.name for tensor in self.tensors]
        self.initial = [
            Copy(source=source, target=target) if source else Fill(target=target)
            for source, target in form.initial
            if source or form.adds or self._earlier.looks_at(names.index(target))
        ]

    def plan(self, again: bool) -> RecordedLaunchPlan:
        """The plan of any later call, with those of calls that do something else, the first among them.

        `again`: whether to carry out one that changes what was prepared twice.
        """
        own = [self._call(number).own for number in range(len(self.sets))]
        if silent := [number for number, one in enumerate(own) if not one.steps]:
            raise self._remembered(silent[0])
        judged, *others = kinds_of_later_calls(own)
        plan = self._plan(judged, again)
        others += self._on_other_memory([judged, *others])
        plans = {number: self._plan(number, again) for number in others}
        if not any(own[0].does_the_same(own[number]) for number in (judged, *others)):
            first = self._plan(0, again=False)
            # One that prepares something and goes on as later ones do often has the very plan of these.
            if all(
                (first.steps, first.temporaries) != (one.steps, one.temporaries) for one in (plan, *plans.values())
            ):
                plans[0] = first
        if not plans:
            return plan
        more = tuple(one.model_copy(update={"call": _ordinal(number)}) for number, one in plans.items())
        return plan.model_copy(update={"call": _ordinal(judged), "others": more})

    def with_call_behind(
        self, plan: RecordedLaunchPlan, process: ProcessCalls, first: Recording, second: Recording
    ) -> RecordedLaunchPlan:
        """The plan, with that of a call behind one at other sizes, where it does something else than any call here.

        `first` and `second` are the recordings of the `process` of that call.
        """
        behind = RepeatedCalls(self.form, first, second, BEHIND)
        if not behind._call(behind._last).own.steps:
            raise behind._remembered(behind._last)
        if any(behind._is_like(behind._last, self, number) for number in range(len(self.sets))):
            return plan
        # What the call before it leaves in memory that both change is of other sizes, and is not met here.
        other = behind._plan(behind._last, again=False).model_copy(update={"prepared": 0, "call": process.said})
        call = plan.call or _ordinal(self._last)
        return plan.model_copy(update={"call": call, "others": (*plan.others, other)})

    def _is_like(self, number: int, others: "RepeatedCalls", other: int) -> bool:
        """Whether a call does what one of another process does, on memory that was prepared in the same way."""
        alike = self._call(number).own == others._call(other).own
        return alike and self._by_itself(number) == others._by_itself(other)

    def _call(self, number: int) -> ReadCall:
        if number not in self._read:
            many = len(self.tensors)
            first, second = (one.call(number, many, self.sets) for one in (self.first, self.second))
            reader = PlanReader(self.form.problem, self.form.entries, first, second, self.initial)
            self._read[number] = ReadCall(number, reader, self.form.returned)
        return self._read[number]

    def _preparation(self, number: int) -> EarlierPreparation:
        if number not in self._preparations:
            self._preparations[number] = self._earlier.preparation(number)
        return self._preparations[number]

    def _prepared(self, number: int) -> list[Step]:
        """What is put before a call by itself."""
        if number not in self._before:
            self._before[number] = self._call(number).prepare(self._preparation(number).pairs)
        return self._before[number]

    def _plan(self, number: int, again: bool) -> RecordedLaunchPlan:
        """Of one call, with what is put before it."""
        call, preparation = self._call(number), self._preparation(number)
        before, more = self._prepared(number), list[Temporary]()
        in_turn = preparation.changes and self._takes_turns(number, preparation)
        if again and preparation.changes and (between := self._between(number, in_turn)):
            if in_turn:
                needed = self._earlier.preparation(min(between), *between, number)
                before = call.prepare(needed.pairs)
            stand_ins = self._stand_ins(call)
            earlier = [step for one in between for step in self._steps_for(number, one)]
            before = [*before, *stand_ins.fills, *stand_ins.in_place_of_tensors(earlier)]
            more = stand_ins.temporaries
            if len(before) + len(call.steps) > MAX_RECORDED_STEPS:
                raise LiftRefusedError(
                    Status.UNSUPPORTED,
                    "The host code keeps memory over its calls that it prepared and that kernels change: its call is "
                    f"carried out twice for that, which is more than {MAX_RECORDED_STEPS} steps.",
                    "Initialise that memory at each call, or launch less. It was not judged, so there is no reward.",
                )
        # Whatever the order of the call's own steps, those before them are over.
        moved = [
            order.model_copy(
                update={"steps": (*range(len(before)), *(len(before) + number for number in order.steps))}
            )
            for order in call.orders
        ]
        prepared = len(before) if preparation.changes and not in_turn else 0
        plan = call.reader.plan([*before, *call.steps], more)
        return plan.model_copy(update={"orders": tuple(moved), "prepared": prepared})

    def _between(self, number: int, in_turn: bool) -> tuple[int, ...]:
        """The calls that are carried out on stand-ins before this one: what they leave is what it meets."""
        if not in_turn:
            return (number,)
        if number == self._last:
            return number, number - 1
        # Of two that take turns, the one behind it is also the one before it.
        before = self._last - 1
        two = self._earlier.kept_buffers(before - 1) == self._earlier.kept_buffers(self._last)
        return (number, self._last) if number == before and two else ()

    def _steps_for(self, number: int, other: int) -> Sequence[Step]:
        """Those of another call, which has the same tensors, on the buffers of this one's plan."""
        call = self._call(number)
        if other == number:
            return call.steps
        return [*self.initial, *call.prepare(self._earlier.of_call(other))]

    def _on_other_memory(self, kinds: Sequence[int]) -> list[int]:
        """Later calls that do what one of `kinds` does, on memory that was prepared in another way."""
        found: list[int] = []
        for kind in kinds:
            own = self._call(kind).own
            alike = [one for one in range(1, len(self.sets)) if one not in kinds and self._call(one).own == own]
            # Memory that nobody prepared is undefined, and is found out in the call that is judged.
            if not alike or not self._preparation(kind).pairs:
                continue
            seen = [self._by_itself(kind)]
            for number in reversed(alike):
                # What is prepared at each call again is there as often as there were calls.
                if self._by_itself(number) not in seen:
                    seen.append(self._by_itself(number))
                    found.append(number)
        return found

    def _by_itself(self, number: int) -> set[Step]:
        return {*self._prepared(number), *self._call(number).steps}

    def _takes_turns(self, number: int, preparation: EarlierPreparation) -> bool:
        """Whether a call uses other buffers than that before it, and some of these were prepared.

        Then one like it comes behind one like that before it, and not behind itself. Raises LiftRefusedError
        where the last two calls take turns, and not all was prepared.
        """
        if number == 0 or self.sets == BEHIND:
            return False
        uses = [self._earlier.kept_buffers(one) for one in (number - 1, number)]
        others = {held for pair in zip(*uses, strict=False) if pair[0] != pair[1] for held in pair}
        if not others & preparation.written:
            return False
        if number == self._last and others & set(uses[0]) & set(uses[1]) - preparation.written:
            raise LiftRefusedError(
                Status.UNSUPPORTED,
                "The host code takes buffers in turn from call to call, and has not prepared all of them. A plan is "
                "one for all calls.",
                "Initialise all of them alike at first. It was not judged, so there is no reward.",
            )
        return True

    def _stand_ins(self, call: ReadCall) -> StandIns:
        taken = {*self.form.problem.parameter_names, *filter(None, call.reader.names)}
        sizes_bytes = [one.bytes for one in call.reader.first.buffers[: len(self.tensors)]]
        return StandIns(self.tensors, sizes_bytes, taken)

    def _remembered(self, number: int) -> LiftRefusedError:
        """For a call that does nothing, though the first did something."""
        same = " and the same tensors as before" if self.sets[number] in self.sets[:number] else ""
        first = next((step for step in self.first.steps if isinstance(step, RecordedLaunch)), None)
        names = {entry.symbol: entry.name.partition("(")[0] for entry in self.form.entries}
        did = f"launches {names.get(first.kernel, first.kernel)}" if first else "fills and copies"
        gives = ""
        if (given := self.first.calls[number].returned) and any(
            one.address == given[0].address for each in self.first.calls[:number] for one in each.returned
        ):
            gives = ", and returns a tensor that an earlier call returned"
        return LiftRefusedError(
            Status.REJECTED,
            f"The host code remembers its answer: its first call {did}, and its {ORDINALS[number]} call in one "
            f"process, with new contents{same}, launches nothing{gives}.",
            "Compute the outputs anew at each call: the same addresses hold other inputs then.",
        )


def _ordinal(number: int) -> str:
    return f"{ORDINALS[number]} call"
