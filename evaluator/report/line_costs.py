"""What a report shows of a kernel's costs: where they lie by line, what limits them, and what a step less would give.

Plain values made from a verdict alone, whatever parts of it are missing; `evaluator.report.charts` draws them.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from common.contract import Compilation, Fault, Occupancy, Profile, Verdict
from common.contract.counters import Counts, Evidence, LaunchCounts, LaunchEstimate
from evaluator.backends.peaks import DevicePeaks, peaks_of
from evaluator.errors import UnknownProblemError
from evaluator.problems.catalogue import find_problem
from evaluator.report.charts import Point, Racer, Roof
from evaluator.stages.compile.resources import Resource, fitting_blocks
from evaluator.stages.profile.gpu_models import machines
from evaluator.stages.verify.findings.race_checks import WITHOUT_END

_SECTOR_BYTES: Final = 32
_SCHEDULERS: Final = 4
"""Warp-instructions that a multiprocessor starts in a clock."""


@dataclass(frozen=True)
class Metric:
    """Something that is counted by line."""

    key: str
    name: str
    why: str
    """What a share of it means."""


@dataclass(frozen=True)
class Mark:
    """The share that one line has of one metric."""

    metric: str
    share: float
    words: str
    """The count behind it."""

    @property
    def shade(self) -> int:
        """0 for nothing worth looking at, 5 for most of it."""
        return sum(self.share > step for step in (0.02, 0.08, 0.2, 0.4, 0.65))


@dataclass(frozen=True)
class LineCosts:
    """What the lines of a source cost, by metric: those that have anything to show."""

    metrics: tuple[Metric, ...] = ()
    marks: Mapping[int, tuple[Mark, ...]] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    who: str = ""
    """Who counted."""


def _said_sectors(counts: Counts) -> str:
    requests = counts.loads.requests + counts.stores.requests
    if not requests:
        return f"{counts.local.sectors:,} sectors of local memory"
    used = f", {counts.memory_efficiency:.0%} used" if counts.memory_efficiency is not None else ""
    return f"{counts.sectors:,} sectors in {requests:,} requests{used}"


def _said_conflicts(counts: Counts) -> str:
    return f"{counts.conflict_wavefronts:,} passes more than the {counts.shared.least_wavefronts:,} needed"


def _said_instructions(counts: Counts) -> str:
    lanes = f", {counts.lane_efficiency:.0%} of the lanes" if counts.lane_efficiency is not None else ""
    return f"{counts.warp_instructions:,} warp-instructions{lanes}"


_COUNTED: Final[tuple[tuple[Metric, Callable[[Counts], int], Callable[[Counts], str]], ...]] = (
    (
        Metric("instructions", "Instructions", "Share of all warp-instructions."),
        lambda counts: counts.warp_instructions,
        _said_instructions,
    ),
    (
        Metric("sectors", "Memory sectors", "Share of all sectors that warps ask of global and local memory."),
        lambda counts: counts.sectors,
        _said_sectors,
    ),
    (
        Metric("conflicts", "Bank conflicts", "Share of the passes over shared memory that conflicts add."),
        lambda counts: counts.conflict_wavefronts,
        _said_conflicts,
    ),
    (
        Metric("divergence", "Divergence", "Share of the branches at which lanes of a warp part."),
        lambda counts: counts.divergent_branches,
        lambda counts: f"{counts.divergent_branches:,} of {counts.branches:,} branches part a warp",
    ),
    (
        Metric("atomics", "Atomics", "Share of the turns in which atomic operations wait for each other."),
        lambda counts: counts.atomics.turns,
        lambda counts: f"{counts.atomics.operations:,} operations in {counts.atomics.turns:,} turns",
    ),
)
_COST: Final = Metric("cost", "Expected time", "Share of the estimated time, by what lines ask of each resource.")

METRICS: Final = (_COST.key, *(metric.key for metric, _, _ in _COUNTED))
"""Keys of all metrics that a line can have."""


def line_costs(profile: Profile | None) -> LineCosts:
    """Shares of every line, where there are counts by line."""
    evidence = _with_lines(profile)
    if profile is None or evidence is None:
        return LineCosts()
    found: dict[int, list[Mark]] = defaultdict(list)
    metrics: list[Metric] = []
    shares = dict(_cost_shares(profile, evidence))
    if shares:
        metrics.append(_COST)
        for line, share in shares.items():
            found[line].append(Mark(_COST.key, share, f"about {share:.1%} of the estimated time"))
    for metric, count, words in _COUNTED:
        whole = sum(count(launch) for launch in evidence.launches)
        if not whole:
            continue
        metrics.append(metric)
        for number, parts in _by_line(evidence).items():
            if mine := sum(map(count, parts)):
                said = "; ".join(words(part) for part in parts if count(part))
                found[number].append(Mark(metric.key, mine / whole, said))
    who = "the simulator" if evidence.source == "simulator" else "the GPU's profiler"
    return LineCosts(tuple(metrics), {line: tuple(marks) for line, marks in found.items()}, evidence.sizes, who)


def _with_lines(profile: Profile | None) -> Evidence | None:
    for evidence in (profile.evidence, profile.gpu_evidence) if profile else ():
        if evidence and any(launch.lines for launch in evidence.launches):
            return evidence
    return None


def _by_line(evidence: Evidence) -> dict[int, list[Counts]]:
    found: dict[int, list[Counts]] = defaultdict(list)
    for launch in evidence.launches:
        for counts in launch.lines:
            found[counts.line].append(counts)
    return found


_OF_RESOURCE: Final[dict[str, Callable[[Counts], int]]] = {
    **dict.fromkeys(("dram", "l2"), lambda counts: counts.sectors),
    "l1": lambda counts: counts.loads.lines + counts.stores.lines + counts.local.lines,
    "lsu": lambda counts: counts.loads.requests + counts.stores.requests + counts.shared.requests,
    "latency": lambda counts: counts.loads.requests or counts.warp_instructions,
    "shared": lambda counts: counts.shared.wavefronts + counts.atomics.turns,
    "atomics": lambda counts: counts.atomics.turns,
    "issue": lambda counts: counts.warp_instructions,
}
_CLASSES: Final = ("fp32", "fp64", "fp16", "integer", "special", "conversion", "tensor")


def _cost_shares(profile: Profile, evidence: Evidence) -> Iterator[tuple[int, float]]:
    """Each resource's time goes to the lines that ask for it, the most expensive resources counting most."""
    estimate = profile.estimate
    if estimate is None or [one.kernel for one in estimate.launches] != [one.kernel for one in evidence.launches]:
        return
    shares: dict[int, float] = defaultdict(float)
    total_us = sum(launch.latency_us for launch in estimate.launches)
    for counts, told in zip(evidence.launches, estimate.launches, strict=True):
        for line, share in _shares_of_launch(counts, told).items():
            shares[line] += share * told.latency_us / total_us
    yield from ((line, min(share, 1.0)) for line, share in sorted(shares.items()) if share >= 0.0005)


def _shares_of_launch(counts: LaunchCounts, told: LaunchEstimate) -> dict[int, float]:
    # The time is nearly that of the most expensive resource: a resource that is half as dear matters little (fourth
    # powers).
    weights = {name: term**4 for name, term in told.terms_us.items()}
    asked = {name: ask for name in weights if (ask := _asking(name)) and sum(map(ask, counts.lines))}
    whole = sum(weights[name] for name in asked)
    shares: dict[int, float] = defaultdict(float)
    for name, ask in asked.items():
        count = sum(map(ask, counts.lines))
        for line in counts.lines if whole else ():
            shares[line.line] += weights[name] / whole * ask(line) / count
    return shares


def _asking(resource: str) -> Callable[[Counts], int] | None:
    """How much of a resource counts ask for; None for one that no line asks for, such as starting blocks."""
    if resource in _CLASSES:
        return lambda counts: counts.by_class.get(resource, 0)  # type: ignore[call-overload]
    return _OF_RESOURCE.get(resource)


@dataclass(frozen=True)
class Room:
    """What limits the occupancy of one launch."""

    launch: Occupancy
    allowed: tuple[tuple[str, int], ...]
    """Warps by resource, for which there is room."""
    next_step: str | None
    """What one step less of what limits it would give."""


def rooms(profile: Profile | None, compilation: Compilation | None) -> tuple[Room, ...]:
    """Occupancy of every different launch."""
    launches = dict.fromkeys(profile.occupancy) if profile else {}
    arch = compilation.arch if compilation else None
    return tuple(_room(launch, arch) for launch in launches)


def _room(launch: Occupancy, arch: str | None) -> Room:
    warps = max(1, math.ceil(launch.block_threads / 32))
    try:
        fitting = fitting_blocks(launch.registers, launch.shared_bytes, launch.block_threads, arch or "sm_0")
    except KeyError:
        return Room(launch, (), None)
    order: tuple[Resource, ...] = ("registers", "shared memory", "threads", "blocks")
    allowed = tuple((name, fitting[name] * warps) for name in order)
    return Room(launch, allowed, _next_step(launch, warps, arch or ""))


def _next_step(launch: Occupancy, warps: int, arch: str) -> str | None:
    """The smallest change of what limits a launch that lets more warps in."""

    def active(registers: int, shared_bytes: int, threads: int) -> int:
        blocks = min(fitting_blocks(registers, shared_bytes, threads, arch).values())
        return blocks * max(1, math.ceil(threads / 32))

    def more(found: int) -> str:
        return f"{found} warps instead of {launch.active_warps} ({found / launch.max_warps:.0%})"

    if launch.active_warps >= launch.max_warps:
        return None
    if launch.limited_by == "registers":
        for registers in range(launch.registers - 1, 15, -1):
            if (found := active(registers, launch.shared_bytes, launch.block_threads)) > launch.active_warps:
                instead = f"{registers} registers a thread instead of {launch.registers}"
                return f"With {instead} there is room for {more(found)}."
    if launch.limited_by == "shared memory":
        for shared_bytes in range(launch.shared_bytes // 128 * 128, -1, -128):
            if (found := active(launch.registers, shared_bytes, launch.block_threads)) > launch.active_warps:
                instead = f"{shared_bytes:,} bytes of shared memory a block instead of {launch.shared_bytes:,}"
                return f"With {instead} there is room for {more(found)}."
    sizes = sorted((64, 96, 128, 192, 256, 384, 512, 768, 1024), key=lambda size: abs(size - launch.block_threads))
    for threads in sizes:
        shared_bytes = launch.shared_bytes * threads // launch.block_threads
        if (found := active(launch.registers, shared_bytes, threads)) > launch.active_warps:
            instead = f"{threads} threads instead of {launch.block_threads}"
            return f"With blocks of {instead} there is room for {more(found)}."
    return None


@dataclass(frozen=True)
class Rooflined:
    """A kernel under its roof."""

    roof: Roof
    point: Point
    note: str


def roofline_data(verdict: Verdict) -> Rooflined | None:
    """The whole plan under the roof of the GPU that timed it, or for which its time was estimated."""
    profile = verdict.profile
    evidence = (profile.evidence or profile.gpu_evidence) if profile else None
    if profile is None or evidence is None:
        return None
    timing, estimate = verdict.timing, profile.estimate
    if timing is not None:
        latency_us, sizes, device = timing.latency_us, timing.sizes, timing.device.name
        peaks = peaks_of(timing.device)
        clock_mhz, multiprocessors = timing.device.max_sm_clock_mhz, timing.device.multiprocessors
    elif estimate is not None:
        machine = machines().get(estimate.gpu)
        latency_us, sizes, device = estimate.latency_us, estimate.sizes, estimate.gpu
        peaks = machine.peaks if machine else None
        clock_mhz, multiprocessors = (machine.clock_mhz, machine.multiprocessors) if machine else (None, None)
    else:
        return None
    scale = _scale(verdict.problem, evidence.sizes, sizes)
    if peaks is None or scale is None:
        return None
    moved = 32 * sum(c.loads.unique_sectors + c.stores.unique_sectors for c in evidence.launches) * scale[0]
    flops = sum(sum(c.flops.values()) for c in evidence.launches) * scale[1]
    instructions = sum(c.warp_instructions for c in evidence.launches) * scale[0]
    # Fewer operations than one for each eight bytes: what bounds such a kernel beside memory is issuing.
    if flops * 8 >= moved > 0:
        roof = Roof(device, peaks.memory_gb_s, _ceilings(evidence, peaks), "floating-point operations", "FLOP")
        work = flops
    elif moved and instructions and clock_mhz and multiprocessors:
        issued = multiprocessors * _SCHEDULERS * clock_mhz / 1e3
        roof = Roof(device, peaks.memory_gb_s, (("all schedulers", issued),), "warp-instructions", "instructions")
        work = instructions
    else:
        return None
    name = evidence.launches[0].kernel if len(evidence.launches) == 1 else "all launches"
    point = Point(name, work / moved, work / latency_us / 1e3, measured=timing is not None)
    return Rooflined(roof, point, _roof_note(point, roof, evidence, sizes))


def _ceilings(evidence: Evidence, peaks: DevicePeaks) -> tuple[tuple[str, float], ...]:
    """Of the units that the kernel used."""
    kinds = {kind for launch in evidence.launches for kind, count in launch.flops.items() if count}
    rates = {
        "fp64": ("float64", peaks.fp64_tflops),
        "fp32": ("float32", peaks.fp32_tflops),
        "fp16": ("float16, ordinary lanes", 2 * peaks.fp32_tflops),
        "tensor": ("tensor cores", peaks.fp16_fastest_tflops),
    }
    known = [(name, 1e3 * tflops) for kind, (name, tflops) in rates.items() if kind in kinds and tflops]
    return tuple(sorted(known, key=lambda ceiling: ceiling[1])) or (("float32", 1e3 * peaks.fp32_tflops),)


def _scale(problem: str, counted: Mapping[str, int], wanted: Mapping[str, int]) -> tuple[float, float] | None:
    """By how much more bytes and operations the problem asks for at other sizes; None where nobody knows."""
    if dict(counted) == dict(wanted):
        return 1.0, 1.0
    try:
        work = find_problem(problem).work
        here, there = work(counted), work(wanted)
    except (UnknownProblemError, KeyError):
        return None
    moved = (there.read_bytes + there.written_bytes) / (here.read_bytes + here.written_bytes)
    return moved, there.flops / here.flops if here.flops else moved


def _roof_note(point: Point, roof: Roof, evidence: Evidence, sizes: Mapping[str, int]) -> str:
    under_memory = point.intensity < roof.ridge
    whose = "memory's" if under_memory else "that of its arithmetic" if roof.short == "FLOP" else "that of issuing"
    left = max(roof.over(point.intensity) / point.rate, 1.0)
    how = "Measured" if point.measured else "Estimated, not measured,"
    note = f"{how} on {roof.device}. The roof above it is {whose}: it leaves room for {left:.3g} times the speed."
    if dict(evidence.sizes) != dict(sizes):
        note += " Counts are those of a smaller run, scaled by what the problem asks for at both sizes."
    return note


@dataclass(frozen=True)
class Access:
    """What one line asks of memory in one request of a warp."""

    line: int
    kernel: str
    space: Literal["global", "shared"]
    act: str
    """`loads` or `stores`."""
    lane_bytes: int
    offsets: tuple[int | None, ...]
    waste: int
    """Sectors or passes over the banks that all its requests need beside those that their bytes would."""


def accesses(profile: Profile | None) -> list[Access]:
    """Requests that waste, the most wasteful line first; where none does, that of the busiest line."""
    evidence = _with_lines(profile)
    found: list[tuple[int, int, Access]] = []
    for launch in evidence.launches if evidence else ():
        for counts, pattern in ((line, pattern) for line in launch.lines for pattern in line.patterns):
            moved = counts.loads if pattern.act == "load" else counts.stores
            if pattern.space == "shared":
                waste, busy = counts.conflict_wavefronts, counts.shared.wavefronts
            else:
                waste, busy = max(moved.sectors - moved.least_sectors, 0), moved.sectors
            one = Access(
                line=counts.line,
                kernel=launch.kernel,
                space=pattern.space,
                act="loads" if pattern.act == "load" else "stores",
                lane_bytes=pattern.lane_bytes,
                offsets=pattern.offsets,
                waste=waste,
            )
            found.append((waste, busy, one))
    ranked = [one for _, _, one in sorted(found, key=lambda entry: entry[:2], reverse=True)]
    return [one for one in ranked if one.waste] or ranked[:1]


def racers(fault: Fault | None) -> tuple[Racer, Racer, str] | None:
    """Who came first, who came second, and the element at which they met."""
    if fault is None or fault.other is None or fault.thread is None or fault.block is None:
        return None
    if fault.kind in WITHOUT_END:  # the other one is of another block, and they met nowhere
        return None
    acts = {"read": "reads", "write": "writes", "atomic": "updates atomically", "wait": "waits"}
    verb = next((verb for verb in acts.values() if fault.message.startswith(verb)), "touches it")
    here = Racer(who(fault.thread, fault.block), verb, fault.line)
    other = fault.other
    there = Racer(who(other.thread, other.block), acts[other.act], other.line)
    what = fault.buffer or "memory"
    return there, here, f"{what}[{fault.element}]" if fault.element is not None else what


def who(thread: tuple[int, int, int] | None, block: tuple[int, int, int] | None) -> str:
    """`thread 3 of block (1, 2, 0)`; empty where that is not known."""
    return f"thread {_place(thread)} of block {_place(block)}" if thread and block else ""


def _place(index: tuple[int, int, int]) -> str:
    return str(index[0]) if index[1] == index[2] == 0 else str(index)
