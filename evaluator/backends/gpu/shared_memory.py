"""Where the buffers of a plan lie in the memory that referee and runner share, with guards between them.

    guard | buffer | guard | buffer | … | guard

A guard begins at the very byte after a buffer's end and holds a secret pattern; buffers begin at multiples of 256.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from evaluator.backends.session import Buffer, BufferCopy, BufferFill, Entry, KernelLaunch, Packed, Pointer

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
    return -(-(size_bytes + GUARD_BYTES) // ALIGNMENT) * ALIGNMENT


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
