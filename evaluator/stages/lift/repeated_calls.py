"""The calls of host code in one process, and the plan that stands for each of them.

The first call of a process may do what no later one does: allocate, upload tables, zero what kernels then reset by
themselves; and it may leave what later ones only look up. So the plan is that of a later call: with the *preparation*
before it, which is what was done earlier to memory that this call goes on using, if it hangs on no tensor, nor on
what an earlier step made of one. What hangs on one is not repeated: that memory has undefined contents, and a call
that needs them is found to be wrong.

Memory that was prepared and that the call changes again is state from call to call (a counter that kernels reset, an
accumulator that they do not). A plan with the preparation before it would always meet it fresh. So there the call is
carried out twice, first on stand-ins of the tensors: what the first leaves behind is what the second meets; and where
calls take buffers in turn, with the call before it in between. How many
steps come before the call itself is noted, so that it can be carried out once more by itself, on the same tensors.

Calls may differ: in how much they do, in what their streams leave open, in what was prepared. Each kind of them has a
plan, and all have to be right: that of the first too, where it does more than the others, or less.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias

from common.contract import Status
from common.launch_plan import (
    MAX_RECORDED_STEPS,
    Copy,
    Fill,
    Launch,
    RecordedLaunchPlan,
    Step,
    Temporary,
)
from common.wire import DType
from evaluator.backends.session import Entry
from evaluator.problems.problem import Problem, Tensor
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.memory_uses import MemoryUses
from evaluator.stages.lift.recorded_steps import PlanReader, renamed
from evaluator.stages.lift.recording import (
    ORDINALS,
    TENSORS_OF_CALLS,
    AnyRecorded,
    RecordedCopy,
    RecordedFill,
    RecordedLaunch,
    Recording,
    in_call,
)
from evaluator.stages.lift.returned import unstable

_LAST: Final = len(TENSORS_OF_CALLS) - 1
_STAND_INS: Final = {
    DType.FLOAT64: "000000000000e83f",
    DType.FLOAT32: "0000403f",
    DType.FLOAT16: "003a",
    DType.BFLOAT16: "403f",
}
"""The element of a stand-in, 0.75: a sum of such is not 0, as it would be of zeros. Integers are 0: they may be
indices."""
_MAX_NAME: Final = 64

Held: TypeAlias = int | str
"""A buffer by its number in the recording, or a variable of the module by its name."""
Pair: TypeAlias = tuple[AnyRecorded, AnyRecorded]
Stretch: TypeAlias = tuple[int, int]


@dataclass
class _Needs:
    """What a call goes on using of what was there before it."""

    held: set[Held] = field(default_factory=set)
    covered: dict[Held, list[Stretch]] = field(default_factory=lambda: defaultdict(list))
    """What is written over before anything looks at it."""
    changed: set[Held] = field(default_factory=set)
    """What the call leaves in another state than it found it, perhaps."""


@dataclass(frozen=True)
class _Alone:
    """What a call does by itself."""

    steps: tuple[Step, ...] = ()
    temporaries: tuple[Temporary, ...] = ()
    orders: tuple[tuple[int, ...], ...] = ()
    """Others of its steps, by their indices: what is said of them names streams, which a call may make anew."""

    def does_the_same(self, other: "_Alone") -> bool:
        """Whether it does, in whatever order its streams may run it."""
        return (self.steps, self.temporaries) == (other.steps, other.temporaries)


@dataclass
class _Launched:
    """What a launch uses, and what of that it may read or write."""

    used: set[Held]
    read: set[Held]
    written: set[Held]


class RepeatedCalls:
    """Both recordings of one process's calls. Everything raises LiftRefusedError where they are no plan."""

    def __init__(
        self,
        problem: Problem,
        entries: Sequence[Entry],
        uses: MemoryUses,
        first: Recording,
        second: Recording,
        initial: Sequence[tuple[str, str]] = (),
        returned: Mapping[str, tuple[int, ...]] | None = None,
        adds: bool = True,
    ) -> None:
        """`uses` are those of the entries. `initial`: before each call the second of two tensors is a copy of the
        first, or zeros where that has no name; these only if the source `adds` to memory, or the first kernel that
        uses the output may look at it: to fill what is overwritten would cost time. `returned`: the shapes of outputs
        that the host code has to return.
        """
        self.problem, self.entries, self.uses, self.returned = problem, entries, uses, returned
        self.first, self.second = first, second
        self.tensors = [*problem.inputs, *problem.outputs]
        begins = [one.first_step for one in first.calls]
        if len(begins) <= _LAST or len(first.buffers) < 2 * len(self.tensors):
            raise unstable("it is not called as often as it should be")
        if begins != [one.first_step for one in second.calls] or len(first.steps) != len(second.steps):
            raise unstable("it does another number of launches, fills and copies")
        if begins != sorted(begins) or begins[-1] > len(first.steps):
            raise unstable("its calls do not follow one another")
        self.begins = begins
        self.initial = [
            Copy(source=source, target=target) if source else Fill(target=target)
            for source, target in initial
            if source or adds or self._looks_at(target)
        ]

    def _looks_at(self, output: str) -> bool:
        """Whether the first kernel of a call that uses this output may read what is there."""
        number = [tensor.name for tensor in self.tensors].index(output)
        for one, other in self._pairs(0, self.begins[1]):
            if isinstance(one, RecordedLaunch) and isinstance(other, RecordedLaunch):
                launched = self._launched(one, other)
                if number in launched.used:
                    return number in launched.read
            elif isinstance(one, RecordedFill) and self._held(one.fill) == number:
                return False
        return False

    def plan(self, again: bool) -> RecordedLaunchPlan:
        """The plan of any later call, with those of calls that do something else, the first among them.

        `again`: whether to carry out one that changes what was prepared twice.
        """
        calls = [self._alone(number) for number in range(len(self.begins))]
        judged, *others = self._judged(calls)
        plan = self._plan(judged, again, judged == _LAST)
        others += self._on_other_memory(calls, [judged, *others])
        alike = calls[_LAST - 1].does_the_same(calls[_LAST])
        plans = {number: self._plan(number, again, alike and number == _LAST) for number in others}
        if not any(calls[0].does_the_same(calls[number]) for number in (judged, *others)):
            first = self._plan(0, again=False, turns=False)
            # One that prepares something and goes on as later ones do often has the very plan of these.
            if all(
                (first.steps, first.temporaries) != (one.steps, one.temporaries) for one in (plan, *plans.values())
            ):
                plans[0] = first
        if not plans:
            return plan
        more = tuple(one.model_copy(update={"call": ORDINALS[number]}) for number, one in plans.items())
        return plan.model_copy(update={"call": ORDINALS[judged], "others": more})

    def _plan(self, judged: int, again: bool, turns: bool) -> RecordedLaunchPlan:
        """Of one call, with what is put before it. `turns`: whether it may take turns with that before it."""
        reader, steps = self._read(judged)
        needs = self._needs(judged)
        pairs, keys = self._preparation(judged, needs)
        # What the first call does once is ordered by what comes after it as well.
        orders = reader.orders() if judged else ()
        more: list[Temporary] = []
        changes = bool(needs.changed & keys)
        in_turn = changes and turns and self._in_turn(keys)
        earlier: list[Step] = []
        if again and in_turn:
            pairs, _ = self._preparation(_LAST - 1, _Needs(needs.held | self._needs(_LAST - 1).held))
            earlier = [*self.initial, *reader.prepare([*self._pairs(self.begins[_LAST - 1], self.begins[_LAST])])]
        before = reader.prepare(pairs)
        if again and changes:
            stand_ins, filled = self._stand_ins({*self.problem.parameter_names, *filter(None, reader.names)})
            before += [*filled, *renamed([*steps, *earlier], stand_ins)]
            if len(before) + len(steps) > MAX_RECORDED_STEPS:
                raise LiftRefusedError(
                    Status.UNSUPPORTED,
                    "The host code keeps memory over its calls that it prepared and that kernels change: its call is "
                    f"carried out twice for that, which is more than {MAX_RECORDED_STEPS} steps.",
                    "Initialise that memory at each call, or launch less. It was not judged, so there is no reward.",
                )
            more = _temporaries(filled, self.tensors)
        # Whatever the order of the call's own steps, those before them are over.
        moved = [
            order.model_copy(
                update={"steps": (*range(len(before)), *(len(before) + number for number in order.steps))}
            )
            for order in orders
        ]
        prepared = len(before) if changes and not in_turn else 0
        return reader.plan([*before, *steps], more).model_copy(update={"orders": tuple(moved), "prepared": prepared})

    def _on_other_memory(self, calls: Sequence["_Alone"], kinds: Sequence[int]) -> list[int]:
        """Later calls that do what one of `kinds` does, on memory that was prepared in another way.

        Where a call changes that memory, as it does to buffers that it takes in turn, the call behind it is judged.
        """
        found: list[int] = []
        for kind in kinds:
            alike = [one for one in range(1, len(calls)) if one not in kinds and calls[one] == calls[kind]]
            # Memory that nobody prepared is undefined, and is found out in the call that is judged.
            if not alike or not self._preparation(kind, self._needs(kind))[0]:
                continue
            seen = [self._plan(kind, again=False, turns=False)]
            for number in reversed(alike):
                plan = self._plan(number, again=False, turns=False)
                # What is prepared at each call again is there as often as there were calls.
                if not plan.prepared and all(set(plan.steps) != set(other.steps) for other in seen):
                    seen.append(plan)
                    found.append(number)
        return found

    def _in_turn(self, keys: set[Held]) -> bool:
        """Whether the last two calls use different ones of buffers that were prepared, as two that take turns.

        Then a call like the last comes behind one like that before it, and not behind itself. Raises LiftRefusedError
        where not all of them were prepared.
        """
        uses = [self._addressed(number) for number in (_LAST - 1, _LAST)]
        others = {held for pair in zip(*uses, strict=False) if pair[0] != pair[1] for held in pair}
        if not others & keys:
            return False
        if others & set(uses[0]) & set(uses[1]) - keys:
            raise LiftRefusedError(
                Status.UNSUPPORTED,
                "The host code takes buffers in turn from call to call, and has not prepared all of them. A plan is "
                "one for all calls.",
                "Initialise all of them alike at first. It was not judged, so there is no reward.",
            )
        return True

    def _addressed(self, number: int) -> list[int]:
        """The buffers that the arguments of a call's launches are in, one after another."""
        end = [*self.begins, len(self.first.steps)][number + 1]
        return [
            held
            for one, other in self._pairs(self.begins[number], end)
            if isinstance(one, RecordedLaunch) and isinstance(other, RecordedLaunch)
            for _, _, held in self._whole.addresses(one, other)
        ]

    def _read(self, number: int) -> tuple["_Reader", list[Step]]:
        many = len(self.tensors)
        recordings = self.first.call(number, many), self.second.call(number, many)
        reader = _Reader(self.problem, self.entries, *recordings, self.initial)
        try:
            return reader, reader.steps(self.returned)
        except LiftRefusedError as refusal:
            raise in_call(refusal, number) from None

    def _alone(self, number: int) -> "_Alone":
        """What a call does by itself; nothing at all is no steps."""
        reader, steps = self._read(number)
        if len(steps) <= len(self.initial):
            if number == 0:
                reader.plan([])
            return _Alone()
        plan = reader.plan(steps)
        temporaries = tuple(sorted(plan.temporaries, key=lambda one: one.name))
        orders = reader.orders() if number else ()
        return _Alone(plan.steps, temporaries, tuple(order.steps for order in orders))

    def _judged(self, calls: Sequence["_Alone"]) -> list[int]:
        """The call that all later ones are like, or one of each kind, first the one that does least.

        They may differ in how much they do, and in what their streams leave open. One that does as much as before,
        and something else, may do so at each call. So there are at most as many kinds as later calls.
        """
        for number, call in enumerate(calls):
            if not call.steps:
                raise self._remembered(number)
        later = range(1, len(calls))
        many = [len(call.steps) for call in calls]
        unlike = [
            number
            for number in later
            if many[number] == many[_LAST] and not calls[number].does_the_same(calls[_LAST])
        ]
        if unlike and (unlike[-1] == _LAST - 1 or len(set(many[1:])) == 1):
            raise self._unlike(unlike[-1], *(calls[number].steps for number in (unlike[-1], _LAST)))
        kinds = [number for number in later if calls[number] not in calls[number + 1 :]]
        return sorted(kinds, key=lambda number: (many[number], -number))

    def _remembered(self, number: int) -> LiftRefusedError:
        """For a call that does nothing, though the first did something."""
        same = " and the same tensors as before" if TENSORS_OF_CALLS[number] in TENSORS_OF_CALLS[:number] else ""
        first = next((step for step in self.first.steps if isinstance(step, RecordedLaunch)), None)
        names = {entry.symbol: entry.name.partition("(")[0] for entry in self.entries}
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

    @staticmethod
    def _unlike(number: int, steps: Sequence[Step], last: Sequence[Step]) -> LiftRefusedError:
        at = next((i for i, pair in enumerate(zip(steps, last, strict=True)) if pair[0] != pair[1]), None)
        what = "its temporaries have other sizes"
        if at is not None:
            one = last[at]
            said = f"the launch of {one.kernel}" if isinstance(one, Launch) else f"the {one.kind}"
            what = f"step {at + 1}, {said}, is another one"
        return LiftRefusedError(
            Status.UNSUPPORTED,
            f"The host code does not do the same at each call: from its {ORDINALS[number]} to its {ORDINALS[_LAST]} "
            f"call in one process {what}. A plan is one for all calls.",
            "Pass kernels nothing that counts calls, or let them count by themselves. It was not judged, so there is "
            "no reward.",
        )

    # --- what was there before ---------------------------------------------------------------------------------

    @cached_property
    def _whole(self) -> "_Reader":
        """Numbers buffers as the recording does: its first call has the first set of tensors."""
        return _Reader(self.problem, self.entries, self.first.call(0), self.second.call(0))

    def _pairs(self, start: int, end: int) -> Iterator[Pair]:
        return zip(self.first.steps[start:end], self.second.steps[start:end], strict=True)

    def _held(self, address: int) -> Held | None:
        number = self._whole.number_at(address)
        return None if number is None else self.first.buffers[number].variable or number

    def _stretch(self, address: int, size: int) -> Stretch:
        number = self._whole.number_at(address)
        start = 0 if number is None else address - self.first.buffers[number].base
        return start, start + size

    def _launched(self, one: RecordedLaunch, other: RecordedLaunch) -> "_Launched":
        uses = self.uses.of(one.kernel)
        found = _Launched(set(uses.variables), set(uses.read_variables), set(uses.written_variables))
        for parameter, at, number in self._whole.addresses(one, other):
            found.used.add(number)
            if uses.may_read(parameter, at):
                found.read.add(number)
            if uses.may_write(parameter, at):
                found.written.add(number)
        return found

    def _needs(self, number: int) -> _Needs:
        """Of one call."""
        needs = _Needs()
        end = [*self.begins, len(self.first.steps)][number + 1]
        for one, other in self._pairs(self.begins[number], end):
            if isinstance(one, RecordedLaunch) and isinstance(other, RecordedLaunch):
                launched = self._launched(one, other)
                needs.held |= launched.used
                needs.changed |= launched.written
            elif isinstance(one, RecordedFill):
                self._written(needs, one.fill, one.bytes)
            elif isinstance(one, RecordedCopy):
                if (source := self._held(one.source)) is not None:
                    needs.held.add(source)
                self._written(needs, one.to, one.bytes)
        needs.held -= set(range(2 * len(self.tensors)))
        return needs

    def _written(self, needs: _Needs, address: int, size: int) -> None:
        if (held := self._held(address)) is None:
            return
        if held in needs.held:
            needs.changed.add(held)
        else:
            needs.covered[held].append(self._stretch(address, size))

    def _preparation(self, number: int, needs: _Needs) -> tuple[list[Pair], set[Held]]:
        """Steps before a call that it goes on needing and that hang on no tensor; and what they write."""
        found: list[Pair] = []
        keys: set[Held] = set()
        if not needs.held:
            return found, keys
        for one, other in reversed(self._on_no_tensor(self.begins[number])):
            if isinstance(one, RecordedLaunch) and isinstance(other, RecordedLaunch):
                launched = self._launched(one, other)
                written = launched.written
                if not written & needs.held:
                    continue
                needs.held |= launched.used
                for place in launched.used:
                    needs.covered.pop(place, None)
            elif isinstance(one, RecordedFill | RecordedCopy):
                address = one.fill if isinstance(one, RecordedFill) else one.to
                target, stretch = self._held(address), self._stretch(address, one.bytes)
                if target is None or target not in needs.held or _within(stretch, needs.covered[target]):
                    continue
                needs.covered[target].append(stretch)
                written = {target}
                if isinstance(one, RecordedCopy) and (source := self._held(one.source)) is not None:
                    needs.held.add(source)
            else:
                continue
            found.insert(0, (one, other))
            keys |= written
        return found, keys

    def _on_no_tensor(self, end: int) -> list[Pair]:
        """Steps up to `end` that hang on no tensor, nor on what an earlier one made of a tensor.

        As the second launch of each call does where the first leaves partial results in a workspace that is kept: by
        itself it would meet what nobody wrote, and may take that for indices.
        """
        tensors: set[Held] = set(range(2 * len(self.tensors)))
        hanging = set(tensors)
        found: list[Pair] = []
        for one, other in self._pairs(0, end):
            if isinstance(one, RecordedLaunch) and isinstance(other, RecordedLaunch):
                launched = self._launched(one, other)
                if launched.used & tensors or launched.read & hanging:
                    hanging |= launched.written
                    continue
            elif isinstance(one, RecordedFill | RecordedCopy):
                address = one.fill if isinstance(one, RecordedFill) else one.to
                target = self._held(address)
                if isinstance(one, RecordedCopy):
                    source = self._held(one.source)
                    if source is None or source in hanging:
                        hanging |= set() if target is None else {target}
                        continue
                whole = isinstance(target, int) and one.bytes == self.first.buffers[target].bytes
                if target is not None and target not in tensors and whole:
                    hanging.discard(target)
            else:
                continue
            found.append((one, other))
        return found

    def _stand_ins(self, taken: set[str]) -> tuple[dict[str, str], list[Fill]]:
        """What the tensors are called for the call before, and what fills these."""
        names: dict[str, str] = {}
        for tensor in self.tensors:
            name = f"{tensor.name[: _MAX_NAME - 8]}_before"
            while name in taken:
                name = f"{name[:-1]}_"
            taken.add(name)
            names[tensor.name] = name
        fills = [
            Fill(
                target=names[tensor.name],
                data=_STAND_INS.get(tensor.dtype, "00"),
                size_bytes=self.first.buffers[number].bytes,
            )
            for number, tensor in enumerate(self.tensors)
        ]
        return names, fills


class _Reader(PlanReader):
    def prepare(self, pairs: Sequence[Pair]) -> list[Step]:
        """Steps from before the call, which are over when it begins. What was freed since then was there."""
        freed, self.freed = self.freed, set()
        try:
            return self.read(pairs)
        finally:
            self.freed = freed


def _within(stretch: Stretch, others: Sequence[Stretch]) -> bool:
    return any(start <= stretch[0] and stretch[1] <= end for start, end in others)


def _temporaries(filled: Sequence[Fill], tensors: Sequence[Tensor]) -> list[Temporary]:
    """Those that are filled, each of the type of its tensor."""
    return [
        Temporary(name=fill.target, dtype=tensor.dtype, shape=((fill.size_bytes or 0) // tensor.dtype.size_bytes,))
        for fill, tensor in zip(filled, tensors, strict=True)
    ]
