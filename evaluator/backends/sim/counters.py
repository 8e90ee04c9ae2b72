"""What the simulator's process counted, as counts of launches and of their source lines.

The translated program counts how often warps and lanes run each block of the flow graph, and its runtime what each
memory instruction costs (runtime/counting.cpp). What a block holds is known here, so instructions by class and
operations are products of the two. They are PTX instructions: ptxas merges some of them, and moves and parameters
often cost nothing on a GPU. Lanes that `exit` inside a device function still count for the rest of the calling block.
"""

import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from common.contract.counters import AccessPattern, InstructionClass, LaunchCounts, LineCounts
from evaluator.backends.session import KernelLaunch
from evaluator.errors import InfrastructureError

_GLOBAL, _SHARED, _LOCAL = range(3)
_LOADED, _STORED, _UPDATED = range(3)
_MAX_PATTERNS: Final = 4
"""Of each launch: the most expensive ones."""
_BORDER_BYTES: Final = 128
_REQUEST_WORDS: Final = 7 + 32
_LAUNCHES_WITH_LINES: Final = 16
"""A plan of many launches repeats itself: the most expensive ones keep their lines, the others their sums."""


@dataclass(frozen=True)
class Step:
    """One instruction of a block, as far as counting is concerned."""

    line: int
    """Source line, 0 unknown."""
    kind: InstructionClass | None
    """None: a memory instruction whose addresses tell."""
    flops: int = 0
    """Of one lane."""
    flop_kind: str = ""
    guard: int | None = None
    """Where the lanes of a guarded operation are counted."""
    sites: range = range(0)
    branches: bool = False
    barrier: bool = False


@dataclass(frozen=True)
class Ledger:
    """What is counted, by the numbers that the translated program uses."""

    blocks: tuple[tuple[Step, ...], ...]


@dataclass
class _Sum:
    """Counts that grow; `values` in the shape of the wire type's fields."""

    values: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    parts: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))

    def fields(self, scale: "_Scale") -> dict[str, Any]:
        """What the wire types take, scaled up from the blocks that ran."""
        plain = {name: scale(count) for name, count in self.values.items()}
        return plain | {name: {k: scale(v) for k, v in part.items() if v} for name, part in self.parts.items()}


@dataclass(frozen=True)
class _Scale:
    blocks: int
    counted: int

    def __call__(self, count: int) -> int:
        return count if self.counted == self.blocks else round(count * self.blocks / self.counted)


class _Record:
    """The process's record of counts: 64-bit words."""

    def __init__(self, record: bytes | bytearray) -> None:
        if len(record) % 8:
            raise _broken()
        self.words = struct.unpack(f"<{len(record) // 8}Q", record)
        self.at = 0

    def take(self, count: int) -> tuple[int, ...]:
        if count > len(self.words) - self.at:
            raise _broken()
        self.at += count
        return self.words[self.at - count : self.at]

    def rows(self, width: int) -> Iterator[tuple[int, ...]]:
        (count,) = self.take(1)
        for _ in range(count):
            yield self.take(width)


def counts_of(
    record: bytes | bytearray, launches: int, ledger: Ledger, names: Sequence[str], steps: Sequence[KernelLaunch]
) -> tuple[LaunchCounts, ...]:
    """The counts of each launch. `names` are the program's kernels, `steps` the launches that were asked for.

    Raises InfrastructureError for what no process of ours would say.
    """
    if launches > len(steps):
        raise _broken()
    reader = _Record(record)
    try:
        counted = [_launch(reader, ledger, names, step) for step in steps[:launches]]
    except (ValueError, IndexError, ZeroDivisionError) as error:
        raise _broken() from error
    dear = sorted(counted, key=lambda launch: -launch.warp_instructions)[:_LAUNCHES_WITH_LINES]
    kept = {id(launch) for launch in dear}
    return tuple(launch if id(launch) in kept else launch.model_copy(update={"lines": ()}) for launch in counted)


def _launch(reader: _Record, ledger: Ledger, names: Sequence[str], step: KernelLaunch) -> LaunchCounts:
    kernel, shared_bytes, blocks, counted_blocks, idle_threads = reader.take(5)
    busiest, meeting_blocks, addresses = reader.take(3)
    whole, lines = _Sum(), defaultdict[int, _Sum](_Sum)
    executions = {number: (warps, lanes, diverged) for number, warps, lanes, diverged in reader.rows(4)}
    guarded = {row[0]: row[1] for row in reader.rows(2)}
    tallies: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    waste: dict[tuple[int, int], int] = {}
    for site, *rest in reader.rows(8):
        tallies[site].append(tuple(rest))
        waste[site, rest[0]] = rest[3] - rest[4]
    for number, (warps, lanes, diverged) in executions.items():
        for instruction in ledger.blocks[number]:
            met = [tally for site in instruction.sites for tally in tallies.pop(site, ())]
            for total in (whole, lines[instruction.line]):
                _execute(total, instruction, warps, lanes, guarded)
                _branch(total, instruction, warps, diverged)
                _classify(total, instruction, warps, met)
                for tally in met:
                    _access(total, *tally)
    if tallies:
        raise ValueError("memory was used by an instruction of a block that did not run")
    scale = _Scale(blocks, counted_blocks)
    found = whole.fields(scale)
    dear = _costliest(ledger, executions, reader.rows(_REQUEST_WORDS), waste)
    for capacity, loaded, stored in reader.rows(3):
        for name, sectors in (("loads", loaded), ("stores", stored)):
            part = found.setdefault(name, {})
            part["block_sectors"] = part.get("block_sectors", 0) + scale(sectors)
            part["unique_sectors"] = part.get("unique_sectors", 0) + min(scale(sectors), capacity)
    if "atomics" in found:
        # Of a sample: where other blocks came too, the rest of them will; where none did, each block has its own.
        common = meeting_blocks > 1 or counted_blocks == 1
        found["atomics"]["busiest"] = scale(busiest) if common else busiest
        found["atomics"]["addresses"] = addresses if common else scale(addresses)
    return LaunchCounts(
        kernel=names[kernel],
        grid=step.grid,
        block=step.block,
        shared_bytes=shared_bytes,
        counted_blocks=counted_blocks,
        idle_threads=scale(idle_threads),
        lines=tuple(
            LineCounts(line=line, patterns=dear.get(line, ()), **counts.fields(scale))
            for line, counts in sorted(lines.items())
            if line > 0
        ),
        **found,
    )


def _costliest(
    ledger: Ledger,
    executed: Iterable[int],
    requests: Iterable[tuple[int, ...]],
    waste: Mapping[tuple[int, int], int],
) -> dict[int, tuple[AccessPattern, ...]]:
    """The request that shows best what a line asks of memory, for the lines that waste most and then move most."""
    line_of = {site: step.line for number in executed for step in ledger.blocks[number] for site in step.sites}
    found: dict[tuple[int, int], tuple[tuple[int, int], AccessPattern]] = {}
    for site, space, access, cost, mask, lane_bytes, first, *relative in requests:
        place, rank = (line_of[site], space), (waste[site, space], cost)
        if space == _LOCAL or line_of[site] <= 0 or (place in found and found[place][0] >= rank):
            continue
        lanes = [first + (o - (o >> 63 << 64)) if mask >> i & 1 else None for i, o in enumerate(relative)]
        border = min(offset for offset in lanes if offset is not None) // _BORDER_BYTES * _BORDER_BYTES
        pattern = AccessPattern(
            space="shared" if space == _SHARED else "global",
            act="load" if access == _LOADED else "store",
            lane_bytes=lane_bytes,
            offsets=tuple(None if offset is None else offset - border for offset in lanes),
        )
        found[place] = rank, pattern
    dear = sorted(found, key=lambda place: found[place][0], reverse=True)[:_MAX_PATTERNS]
    by_line: dict[int, tuple[AccessPattern, ...]] = defaultdict(tuple)
    for place in dear:
        by_line[place[0]] += (found[place][1],)
    return by_line


def _execute(total: _Sum, step: Step, warps: int, lanes: int, guarded: dict[int, int]) -> None:
    total.values["warp_instructions"] += warps
    total.values["thread_instructions"] += lanes
    if step.flops:
        active = lanes if step.guard is None else guarded.get(step.guard, 0)
        total.parts["flops"][step.flop_kind] += step.flops * active


def _branch(total: _Sum, step: Step, warps: int, diverged: int) -> None:
    total.values["barriers"] += warps * step.barrier
    if step.branches:
        total.values["branches"] += warps
        total.values["divergent_branches"] += diverged


def _classify(total: _Sum, step: Step, warps: int, met: Sequence[tuple[int, ...]]) -> None:
    classes = total.parts["by_class"]
    if step.kind is not None:
        classes[step.kind] += warps
        return
    # A generic address: what it turned out to be, and global memory for the rest (a constant's, or none at all).
    left = warps
    for name, space in (("shared", _SHARED), ("local", _LOCAL)):
        took = min(left, sum(tally[2] for tally in met if tally[0] == space))
        classes[name] += took
        left -= took
    classes["global"] += left


def _access(
    total: _Sum, space: int, access: int, requests: int, first: int, second: int, third: int, useful: int
) -> None:
    if access == _UPDATED:
        part = total.parts["atomics"]
        part["operations"] += first
        part["turns"] += second
    elif space == _SHARED:
        part = total.parts["shared"]
        part["wavefronts"] += first
        part["least_wavefronts"] += second
    else:
        part = total.parts["local" if space == _LOCAL else "loads" if access == _LOADED else "stores"]
        part["sectors"] += first
        part["least_sectors"] += second
        part["lines"] += third
        part["useful_bytes"] += useful
    part["requests"] += requests


def _broken() -> InfrastructureError:
    return InfrastructureError("The simulator's process sent counts that make no sense.", "Please report it.")
