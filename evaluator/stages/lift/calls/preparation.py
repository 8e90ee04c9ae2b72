"""What was there before a call that it goes on using: which earlier steps of its process prepared that memory.

Steps that hang on a tensor, or on what an earlier step made of one, are not among them: at the next call the same
addresses hold other contents.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from evaluator.stages.lift.calls.address_pairs import AddressPairs
from evaluator.stages.lift.memory_uses import MemoryUses
from evaluator.stages.lift.recording import AnyRecorded, RecordedCopy, RecordedFill, RecordedLaunch, Recording

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


@dataclass
class _Launched:
    """What a launch uses, and what of that it may read or write."""

    used: set[Held]
    read: set[Held]
    written: set[Held]


@dataclass(frozen=True)
class EarlierPreparation:
    """What stands before a call."""

    pairs: Sequence[Pair] = ()
    """Steps, in both recordings."""
    written: frozenset[Held] = frozenset()
    """What they write."""
    changes: bool = False
    """Whether the call may leave some of that in another state."""


class EarlierSteps:
    """The steps of one process, as two recordings have them, by what they do to memory."""

    def __init__(self, first: Recording, second: Recording, uses: MemoryUses, tensors: int, first_set: int) -> None:
        """`tensors`: how many of the buffers each of the two sets of tensors has; `first_set`: that of the first
        call.
        """
        self._first, self._second, self._uses, self._tensors = first, second, uses, 2 * tensors
        self._given_first = tensors * first_set
        self._addresses = AddressPairs(first.buffers, second.buffers)
        self._ends = [*(one.first_step for one in first.calls), len(first.steps)]

    def of_call(self, number: int) -> Iterator[Pair]:
        """The steps of one call, in both recordings."""
        return self._between(self._ends[number], self._ends[number + 1])

    def looks_at(self, tensor: int) -> bool:
        """Whether the first kernel of the first call that uses this tensor of its set may read what is there."""
        number = self._given_first + tensor
        for one, other in self.of_call(0):
            if isinstance(one, RecordedLaunch) and isinstance(other, RecordedLaunch):
                launched = self._launched(one, other)
                if number in launched.used:
                    return number in launched.read
            elif isinstance(one, RecordedFill) and self._held(one.fill) == number:
                return False
        return False

    def kept_buffers(self, number: int) -> list[int]:
        """The buffers that are no tensors and that the arguments of a call's launches are in, one after another."""
        return [
            held
            for one, other in self.of_call(number)
            if isinstance(one, RecordedLaunch) and isinstance(other, RecordedLaunch)
            for _, _, held in self._addresses.in_launch(one, other)
            if held >= self._tensors
        ]

    def preparation(self, number: int, *others: int) -> EarlierPreparation:
        """Steps before a call that it goes on needing, or that one of `others` does."""
        needs = self._needs(number)
        changed = set(needs.changed)
        if others:
            needs = _Needs(needs.held.union(*(self._needs(one).held for one in others)))
        found: list[Pair] = []
        written: set[Held] = set()
        for pair in reversed(self._on_no_tensor(self._ends[number]) if needs.held else []):
            if writes := self._needed(needs, *pair):
                found.insert(0, pair)
                written |= writes
        return EarlierPreparation(found, frozenset(written), not changed.isdisjoint(written))

    def _needed(self, needs: _Needs, one: AnyRecorded, other: AnyRecorded) -> set[Held]:
        """What a step writes, if that is needed; and what is needed for it is noted then."""
        if isinstance(one, RecordedLaunch) and isinstance(other, RecordedLaunch):
            launched = self._launched(one, other)
            if launched.written.isdisjoint(needs.held):
                return set()
            needs.held |= launched.used
            for place in launched.used:
                needs.covered.pop(place, None)
            return launched.written
        if not isinstance(one, RecordedFill | RecordedCopy):
            return set()
        address = one.fill if isinstance(one, RecordedFill) else one.to
        target, stretch = self._held(address), self._stretch(address, one.bytes)
        if target is None or target not in needs.held or _within(stretch, needs.covered[target]):
            return set()
        needs.covered[target].append(stretch)
        if isinstance(one, RecordedCopy) and (source := self._held(one.source)) is not None:
            needs.held.add(source)
        return {target}

    def _between(self, start: int, end: int) -> Iterator[Pair]:
        return zip(self._first.steps[start:end], self._second.steps[start:end], strict=True)

    def _held(self, address: int) -> Held | None:
        number = self._addresses.number_at(address)
        return None if number is None else self._first.buffers[number].variable or number

    def _stretch(self, address: int, size: int) -> Stretch:
        number = self._addresses.number_at(address)
        start = 0 if number is None else address - self._first.buffers[number].base
        return start, start + size

    def _launched(self, one: RecordedLaunch, other: RecordedLaunch) -> _Launched:
        uses = self._uses.of(one.kernel)
        found = _Launched(set(uses.variables), set(uses.read_variables), set(uses.written_variables))
        for parameter, at, number in self._addresses.in_launch(one, other):
            found.used.add(number)
            if uses.may_read(parameter, at):
                found.read.add(number)
            if uses.may_write(parameter, at):
                found.written.add(number)
        return found

    def _needs(self, number: int) -> _Needs:
        """Of one call."""
        needs = _Needs()
        for one, other in self.of_call(number):
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
        needs.held -= set(range(self._tensors))
        return needs

    def _written(self, needs: _Needs, address: int, size: int) -> None:
        if (held := self._held(address)) is None:
            return
        if held in needs.held:
            needs.changed.add(held)
        else:
            needs.covered[held].append(self._stretch(address, size))

    def _on_no_tensor(self, end: int) -> list[Pair]:
        """Steps up to `end` that hang on no tensor, nor on what an earlier one made of a tensor.

        As the second launch of each call does where the first leaves partial results in a workspace that is kept: by
        itself it would meet what nobody wrote, and may take that for indices.
        """
        tensors: set[Held] = set(range(self._tensors))
        hanging = set(tensors)
        found: list[Pair] = []
        for one, other in self._between(0, end):
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
                whole = isinstance(target, int) and one.bytes == self._first.buffers[target].bytes
                if target is not None and target not in tensors and whole:
                    hanging.discard(target)
            else:
                continue
            found.append((one, other))
        return found


def _within(stretch: Stretch, others: Sequence[Stretch]) -> bool:
    return any(start <= stretch[0] and stretch[1] <= end for start, end in others)
