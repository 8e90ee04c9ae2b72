"""Where the buffers of a plan lie in the memory that referee and runner share, with guards between them.

    guard | buffer | guard | buffer | … | guard

A guard begins at the very byte after a buffer's end and holds a secret pattern; buffers begin at multiples of 256.

The buffers of runs that are launched together lie side by side, all with guards between them. Behind them all there
is room for what each output held right before its own run: a run that wrote into the output of a later one, which
writes over that, is seen there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from evaluator.backends.session import (
    Buffer,
    BufferCopy,
    BufferFill,
    Entry,
    KernelLaunch,
    Packed,
    PlanRun,
    Pointer,
)

ALIGNMENT: Final = 256
GUARD_BYTES: Final = 1 << 20
"""Wide enough for a row or a tile too far; what goes further is found by the simulator or ends the context."""


class Memory(Protocol):
    """Memory of the referee's that a runner can map."""

    size_bytes: int
    content: Any
    """All of it as a torch tensor, uint8[size_bytes], on the referee's side."""

    def descriptor(self) -> int:
        """A new descriptor for a runner; the caller closes it."""

    def close(self) -> None:
        """Give it back; no runner may have it mapped any more."""


@dataclass(frozen=True)
class BufferRegion:
    """A buffer's place, bytes from the start of the memory."""

    name: str
    offset: int
    size_bytes: int
    item_bytes: int

    @property
    def end(self) -> int:
        """The first byte after it."""
        return self.offset + self.size_bytes


@dataclass(frozen=True)
class Layout:
    """The places of all buffers of a run, in order."""

    places: tuple[BufferRegion, ...]
    size_bytes: int

    def guards(self) -> tuple[tuple[int, int], ...]:
        """First and last + 1 byte of each guard."""
        starts = (0, *(place.end for place in self.places))
        ends = (*(place.offset for place in self.places), self.size_bytes)
        return tuple(zip(starts, ends, strict=True))

    def guards_beyond(self, other: "Layout | None") -> tuple[tuple[int, int], ...]:
        """What of the guards is not among those of another layout of the same memory, in which a buffer lay there."""
        if other is None:
            return self.guards()
        both = ((max(start, p.offset), min(end, p.end)) for start, end in self.guards() for p in other.places)
        return tuple((start, end) for start, end in both if start < end)

    def distance(self, offset: int) -> int:
        """How many bytes lie between a byte and the nearest buffer."""
        return min(max(place.offset - offset, offset - place.end + 1, 0) for place in self.places)

    def nearest(self, offset: int) -> tuple[BufferRegion, int]:
        """The buffer that is nearest to a byte, and the element of it (possibly outside) that the byte belongs to."""
        place = min(self.places, key=lambda place: max(place.offset - offset, offset - place.end + 1))
        return place, (offset - place.offset) // place.item_bytes


@dataclass(frozen=True)
class Placement:
    """Where the buffers of runs lie that are launched together; of a single one, where its own do."""

    whole: Layout
    """All of them, and last, where there are several runs, the room for early outputs."""
    runs: tuple[Layout, ...]
    """Of each run its own buffers."""
    early: tuple[tuple[BufferRegion, ...], ...]
    """Of each run, for each of its outputs where that is kept as it was right before the run; empty for one run."""

    @property
    def early_room(self) -> BufferRegion | None:
        """All of `early`."""
        return self.whole.places[-1] if any(self.early) else None

    def early_parts(self, patterns: Sequence[int]) -> list[tuple[int, int, int]]:
        """Where `early` begins and ends for runs of one pattern in a row, of those of all runs, and which that is."""
        begins: list[tuple[int, int]] = []
        for kept, pattern in zip(self.early, patterns, strict=True):
            if kept and (not begins or begins[-1][1] != pattern):
                begins.append((kept[0].offset, pattern))
        room = self.early_room
        ends = [*(start for start, _ in begins[1:]), room.end] if room else []
        return [(start, end, pattern) for (start, pattern), end in zip(begins, ends, strict=True)]

    def early_ends(self, number: int) -> tuple[int, ...]:
        """Where what belongs to each place of `early` of a run ends: the bytes up to the next place, too."""
        return tuple(place.offset + _aligned(place.size_bytes) for place in self.early[number])

    def run_nearest(self, offset: int) -> int:
        """The run one of whose buffers is nearest to a byte."""
        return min(range(len(self.runs)), key=lambda number: self.runs[number].distance(offset))

    def steps(self, number: int, run: PlanRun, entries: dict[str, Entry]) -> list[dict[str, Any]]:
        """What the runner does for the run of this number."""
        early = {f"{place.name} before": place for place in self.early[number]}  # no tensor's name has a space
        places = (*self.runs[number].places, *(replace(place, name=name) for name, place in early.items()))
        there = Layout(places, self.whole.size_bytes)
        kept = [BufferCopy(place.name, name) for name, place in early.items()]
        return [step_order(step, there, entries) for step in (*kept, *run.steps)]


def placed_together(runs: Sequence[PlanRun], memory_bytes: int) -> Placement:
    """Places for the buffers of all runs, in their order."""
    outputs = [[buffer for buffer in run.buffers if buffer.role == "output"] for run in runs]
    early_bytes = sum(_aligned(one.size_bytes) for each in outputs for one in each) if len(runs) > 1 else 0
    room = [Buffer("early outputs", "temporary", early_bytes, 1, None)] if early_bytes else []
    whole = layout([*(buffer for run in runs for buffer in run.buffers), *room], memory_bytes)
    places = iter(whole.places)
    each = tuple(Layout(tuple(next(places) for _ in run.buffers), whole.size_bytes) for run in runs)
    if not room:
        return Placement(whole, each, tuple(() for _ in runs))
    at, early = whole.places[-1].offset, []
    for of_run in outputs:
        kept = []
        for one in of_run:
            kept.append(BufferRegion(one.name, at, one.size_bytes, one.item_bytes))
            at += _aligned(one.size_bytes)
        early.append(tuple(kept))
    return Placement(whole, each, tuple(early))


def layout(buffers: Sequence[Buffer], memory_bytes: int = 0) -> Layout:
    """Places for `buffers`, in their order; what is left of the memory is part of the last guard."""
    places = []
    at = GUARD_BYTES
    for buffer in buffers:
        places.append(BufferRegion(buffer.name, at, buffer.size_bytes, buffer.item_bytes))
        at += _stride(buffer.size_bytes)
    return Layout(tuple(places), max(at, memory_bytes))


def room_for(sizes_bytes: Sequence[int]) -> int:
    """Bytes of memory that buffers of these sizes take, guards included."""
    return GUARD_BYTES + sum(_stride(size_bytes) for size_bytes in sizes_bytes)


def _stride(size_bytes: int) -> int:
    return _aligned(size_bytes + GUARD_BYTES)


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNMENT) * ALIGNMENT


def step_order(
    step: KernelLaunch | BufferFill | BufferCopy, places: Layout, entries: dict[str, Entry]
) -> dict[str, Any]:
    """One step of a plan as the runner takes it: offsets for pointers, the other arguments as bytes."""
    where = {place.name: place for place in places.places}
    if isinstance(step, BufferFill):
        size_bytes = step.size_bytes
        if size_bytes is None:
            size_bytes = where[step.buffer].size_bytes - step.offset_bytes
        return {
            "step": "fill",
            **_target(step.buffer, step.offset_bytes, step.variable, where),
            "bytes": size_bytes,
            "pattern": step.pattern.hex(),
        }
    if isinstance(step, BufferCopy):
        source = where[step.source]
        return {
            "step": "copy",
            **_target(step.target, step.target_offset_bytes, step.variable, where),
            "source": source.offset + step.source_offset_bytes,
            "bytes": source.size_bytes if step.size_bytes is None else step.size_bytes,
        }
    parameters = entries[step.symbol].parameters
    block = bytearray(max((p.offset + p.size_bytes for p in parameters), default=0))
    pointers = []
    for parameter, argument in zip(parameters, step.arguments, strict=True):
        if isinstance(argument, Pointer):
            pointers.append((parameter.offset, where[argument.buffer].offset + argument.offset_bytes))
            continue
        data = argument.data if isinstance(argument, Packed) else argument
        block[parameter.offset : parameter.offset + len(data)] = data
        if isinstance(argument, Packed):
            addresses = argument.addresses
            pointers += [(parameter.offset + at, where[to.buffer].offset + to.offset_bytes) for at, to in addresses]
    return {
        "step": "launch",
        "symbol": step.symbol,
        "grid": step.grid,
        "block": step.block,
        "shared_bytes": step.shared_bytes,
        "arguments": block.hex(),
        "pointers": pointers,
        "offsets": [parameter.offset for parameter in parameters],
        "cooperative": step.cooperative,
        "cluster": step.cluster,
    }


def _target(name: str, offset_bytes: int, variable: bool, where: dict[str, BufferRegion]) -> dict[str, Any]:
    """Where a fill or a copy goes: from the start of the memory, or within a variable of the program."""
    if variable:
        return {"variable": name, "offset": offset_bytes}
    return {"variable": None, "offset": where[name].offset + offset_bytes}
