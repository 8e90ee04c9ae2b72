"""Pitfalls: what costs time, from counts and never from the text of a kernel.

Each is weighed by a *yardstick*: how many clocks the launch keeps each resource of a GPU busy, if it is large enough
to fill the GPU, and how many without the pitfall. The most expensive resource is the time to expect; the share of it
that would be saved is the pitfall's weight, times the launch's share of its plan. So conflicts in shared memory weigh
nothing in a kernel that waits for DRAM anyway. That is cruder than an estimate of time on a named GPU, and made to be
lenient: a pitfall that is named is there, and its number is in the counts.

The yardstick's GPU is one of the H100 class (NVIDIA H100 Tensor Core GPU Architecture whitepaper, 2022; 132
multiprocessors, 1.755 GHz, 3.35 TB/s). Per clock and multiprocessor: 4 warp-instructions, 1 pass over the banks of
shared memory, 1 line of 128 bytes looked up in L1, 1 sector from L2, 0.45 sectors from DRAM; and on the whole device
1 atomic operation on one address.

Thresholds, beside a weight of at least `MIN_WEIGHT`: see `_FINDERS`' functions; each names its own.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from common.contract import KernelResources, Occupancy
from common.contract.counters import Counts, Evidence, LaunchCounts, LineCounts, Pitfall, Traffic
from common.demangled import without_parameters

MIN_WEIGHT: Final = 0.02
"""What would save less of the plan's time is no pitfall."""
_MULTIPROCESSORS: Final = 132
_ISSUE, _L2, _DRAM = 4.0, 1.0, 0.45
_TENSOR_FLOPS: Final = 4096.0
_RATES: Final = {"special": 0.5, "fp64": 2.0}
"""Warp-instructions a clock of the narrower pipes."""
_FREE: Final = ("move", "constant")
"""PTX that ptxas mostly drops: moves, and parameters, which are operands there."""
_MEMORY_LATENCY_CLOCKS: Final = 800
_REQUESTS_IN_FLIGHT: Final = 4
"""Loads that a warp has under way at once, in code that the compiler has unrolled: a lenient guess."""
_WARPS_TO_FILL_PIPES: Final = 8
_MAX_WARPS: Final = 64


@dataclass(frozen=True)
class _Time:
    """Clocks that a launch takes from each resource, all multiprocessors working."""

    issue: float
    pipes: float
    tensor: float
    shared: float
    l1: float
    l2: float
    dram: float
    atomics: float

    @property
    def clocks(self) -> float:
        return max(self.issue, self.pipes, self.tensor, self.shared, self.l1, self.l2, self.dram, self.atomics)

    @property
    def waits_for_memory(self) -> bool:
        return self.clocks in (self.l1, self.l2, self.dram)


@dataclass(frozen=True)
class _Patient:
    """One launch, and what is known of its kernel."""

    counts: LaunchCounts
    time: _Time
    occupancy: Occupancy | None
    resources: KernelResources | None

    @property
    def threads(self) -> int:
        return math.prod(self.counts.grid) * math.prod(self.counts.block)

    @property
    def local_memory(self) -> bool:
        """Whether the compiler really left something in local memory."""
        return self.resources is None or self.resources.stack_bytes > 0

    def saved(self, **terms: float) -> float:
        """Share of the launch's time that is saved when resources take these clocks only."""
        return 1 - replace(self.time, **terms).clocks / self.time.clocks if self.time.clocks else 0.0

    def reach(self, warps: float, sectors_per_request: float | None = None) -> float:
        """Share of the most expensive resource's throughput that so many warps a multiprocessor can keep busy.

        Little's law: for memory, bytes in flight over throughput times latency; else warps over those that fill the
        pipes (Volkov, "Understanding Latency Hiding on GPUs", 2016).
        """
        if not self.time.waits_for_memory:
            return min(1.0, warps / _WARPS_TO_FILL_PIPES)
        moved = self.counts.loads.requests + self.counts.stores.requests
        sectors = self.counts.global_sectors / moved if moved else 4.0
        in_flight = warps * _REQUESTS_IN_FLIGHT * (sectors_per_request or sectors)
        return min(1.0, in_flight / (_DRAM * _MEMORY_LATENCY_CLOCKS))


def find_pitfalls(
    evidence: Evidence, occupancies: Sequence[Occupancy] = (), resources: Sequence[KernelResources] = ()
) -> tuple[Pitfall, ...]:
    """What costs time in these launches, the most expensive first; one of each kind and kernel."""
    by_name = {_plain(kernel.kernel): kernel for kernel in resources}
    patients = []
    for counts in evidence.launches:
        kernel, threads = _plain(counts.kernel), math.prod(counts.block)
        fitting = (o for o in occupancies if _plain(o.kernel) == kernel and o.block_threads == threads)
        occupancy = next(fitting, None)
        known = by_name.get(kernel)
        local = known is None or known.stack_bytes > 0
        patients.append(_Patient(counts, _time(counts, local), occupancy, known))
    plan_clocks = sum(patient.time.clocks for patient in patients)
    found: dict[tuple[str, str], Pitfall] = {}
    for patient in patients:
        for finder in _FINDERS:
            for pitfall in finder(patient):
                weight = round(pitfall.weight * patient.time.clocks / plan_clocks, 3)
                key = (pitfall.kind, pitfall.kernel)
                if weight >= max(MIN_WEIGHT, found[key].weight if key in found else 0.0):
                    found[key] = pitfall.model_copy(update={"weight": weight})
    return tuple(sorted(found.values(), key=lambda pitfall: -pitfall.weight))


def _plain(kernel: str) -> str:
    """`ns::scale<float, 4>`: without what it returns and takes."""
    return without_parameters(kernel)


def _time(counts: LaunchCounts, local_memory: bool) -> _Time:
    classes = counts.by_class
    issued = counts.warp_instructions - sum(classes.get(name, 0) for name in _FREE)
    local_lines = counts.local.lines if local_memory else 0
    turns_in_shared = counts.atomics.turns if counts.shared.requests or not counts.atomics.busiest else 0
    return _Time(
        issue=issued / _ISSUE / _MULTIPROCESSORS,
        pipes=sum(classes.get(name, 0) / rate for name, rate in _RATES.items()) / _MULTIPROCESSORS,  # type: ignore[call-overload]
        tensor=counts.flops.get("tensor", 0) / _TENSOR_FLOPS / _MULTIPROCESSORS,
        shared=(counts.shared.wavefronts + turns_in_shared) / _MULTIPROCESSORS,
        l1=(counts.loads.lines + counts.stores.lines + local_lines) / _MULTIPROCESSORS,
        l2=(counts.loads.unique_sectors + counts.stores.sectors) / _L2 / _MULTIPROCESSORS,
        dram=(counts.loads.unique_sectors + counts.stores.unique_sectors) / _DRAM / _MULTIPROCESSORS,
        atomics=float(counts.atomics.busiest),
    )


def _worst(counts: LaunchCounts, cost: Callable[[Counts], float]) -> LineCounts | None:
    dear = max(counts.lines, key=cost, default=None)
    return dear if dear is not None and cost(dear) > 0 else None


def _least_lines(traffic: Traffic) -> float:
    return max(traffic.requests, traffic.least_sectors / 4)


def _scattered(traffic: Traffic) -> bool:
    """Twice the sectors and four more a request: neither a row that begins inside a sector nor a few rows at once."""
    extra = traffic.sectors - traffic.least_sectors
    return traffic.sectors >= 2 * traffic.least_sectors and extra >= 4 * max(traffic.requests, 1)


def _uncoalesced(patient: _Patient) -> Iterator[Pitfall]:
    """Lines of the source whose requests touch twice the sectors that their bytes would fill, and four more each."""
    counts = patient.counts
    loads = [line for line in counts.lines if _scattered(line.loads)]
    stores = [line for line in counts.lines if _scattered(line.stores)]
    traffic = [(line, line.loads, "loads") for line in loads] + [(line, line.stores, "stores") for line in stores]
    if not traffic:
        return
    extra_lines = sum(t.lines - _least_lines(t) for _, t, _ in traffic)
    extra_stores = sum(line.stores.sectors - line.stores.least_sectors for line in stores)
    worst, worst_traffic, kind = max(traffic, key=lambda row: row[1].lines - _least_lines(row[1]))
    share = worst_traffic.useful_bytes / (32 * worst_traffic.sectors)
    yield Pitfall(
        kind="uncoalesced_access",
        kernel=counts.kernel,
        line=worst.line,
        cost=f"its {kind} touch {worst_traffic.sectors / worst_traffic.requests:.3g} sectors a warp where "
        f"{worst_traffic.least_sectors / worst_traffic.requests:.3g} would hold the same bytes: {share:.0%} of what "
        "is moved is used",
        weight=patient.saved(
            l1=max(0.0, patient.time.l1 - extra_lines / _MULTIPROCESSORS),
            l2=max(0.0, patient.time.l2 - extra_stores / _L2 / _MULTIPROCESSORS),
        ),
        remedy="Let neighbouring threads (threadIdx.x) touch neighbouring elements; where the layout forbids it, "
        "stage a tile in shared memory and read or write it along the rows.",
    )


def _bank_conflicts(patient: _Patient) -> Iterator[Pitfall]:
    """More than 1.1 passes over the banks for each that is needed."""
    counts = patient.counts
    ways = counts.bank_conflict_ways
    if ways is None or ways <= 1.1:
        return
    extra = counts.shared.wavefronts - counts.shared.least_wavefronts
    line = _worst(counts, lambda c: c.shared.wavefronts - c.shared.least_wavefronts)
    shared = (line or counts).shared
    yield Pitfall(
        kind="bank_conflicts",
        kernel=counts.kernel,
        line=line.line if line else None,
        cost=f"its accesses to shared memory take {shared.wavefronts / shared.least_wavefronts:.3g} passes over the "
        f"banks for each that is needed ({shared.wavefronts - shared.least_wavefronts:,} more)",
        weight=patient.saved(shared=patient.time.shared - extra / _MULTIPROCESSORS),
        remedy="Pad the rows of the shared array by one element (tile[32][33]), or swizzle its columns, so that the "
        "threads of a warp meet different banks.",
    )


def _divergence(patient: _Patient) -> Iterator[Pitfall]:
    """Lane efficiency below 0.85, where every second warp at least went different ways somewhere."""
    counts = patient.counts
    efficiency, warps = counts.lane_efficiency, patient.threads / 32
    if efficiency is None or efficiency >= 0.85 or counts.divergent_branches < warps / 2:
        return
    line = _worst(counts, lambda c: c.divergent_branches)
    yield Pitfall(
        kind="divergence",
        kernel=counts.kernel,
        line=line.line if line else None,
        cost=f"lanes of a warp go different ways {counts.divergent_branches / warps:.3g} times on average: "
        f"{32 * efficiency:.3g} of 32 lanes work",
        weight=patient.saved(issue=patient.time.issue * efficiency, pipes=patient.time.pipes * efficiency),
        remedy="Let whole warps take the same branch (branch on blockIdx or on threadIdx / 32), or compute both "
        "sides and select.",
    )


def _low_occupancy(patient: _Patient) -> Iterator[Pitfall]:
    """At most half of the warps that fit, where so few cannot keep the most expensive resource busy."""
    occupancy = patient.occupancy
    if occupancy is None or occupancy.occupancy > 0.5:
        return
    full = patient.reach(float(occupancy.max_warps))
    weight = 1 - patient.reach(float(occupancy.active_warps)) / full if full else 0.0
    remedies = {
        "registers": "Let the kernel use fewer registers: smaller tiles for each thread, less unrolling, "
        "`__launch_bounds__`.",
        "shared memory": "Let a block use less shared memory, or share it among more threads.",
        "threads": "Choose a block size that divides what a multiprocessor holds (128, 256 or 512 threads).",
        "blocks": "Use larger blocks: at least 64 threads, better 128 or 256.",
    }
    yield Pitfall(
        kind="low_occupancy",
        kernel=patient.counts.kernel,
        line=None,
        cost=f"{occupancy.active_warps} of {occupancy.max_warps} warps fit on a multiprocessor, limited by "
        f"{occupancy.limited_by}: too few to hide the latency",
        weight=weight,
        remedy=remedies[occupancy.limited_by],
    )


def _spills(patient: _Patient) -> Iterator[Pitfall]:
    """Registers that ptxas spilled (each counted once a thread: at least), and arrays in local memory."""
    counts, known = patient.counts, patient.resources
    spilled = (known.spill_store_bytes + known.spill_load_bytes) // 4 if known else 0
    warps = patient.threads / 32
    time = patient.time
    local = counts.local.lines / _MULTIPROCESSORS if patient.local_memory else 0.0
    with_spills = replace(time, l1=time.l1 + spilled * warps / _MULTIPROCESSORS)
    weight = 1 - replace(time, l1=time.l1 - local).clocks / with_spills.clocks if with_spills.clocks else 0.0
    if weight <= 0:
        return
    line = _worst(counts, lambda c: c.local.sectors)
    if spilled and known is not None:
        cost = f"{known.spill_store_bytes} bytes a thread are spilled and {known.spill_load_bytes} read back"
    else:
        cost = f"arrays of a thread lie in local memory: {counts.local.sectors:,} sectors moved"
    yield Pitfall(
        kind="spills",
        kernel=counts.kernel,
        line=line.line if line and not spilled else None,
        cost=cost,
        weight=weight,
        remedy="Shrink the tile of a thread or its unrolling; index local arrays by constants only "
        "(`#pragma unroll`), so that they can live in registers.",
    )


def _hot_atomics(patient: _Patient) -> Iterator[Pitfall]:
    """One address of global memory, or one word of shared memory a warp, that everybody adds to."""
    counts = patient.counts
    atomics = counts.atomics
    if not atomics.requests:
        return
    calm = (counts.shared.wavefronts + atomics.requests) / _MULTIPROCESSORS
    weight = patient.saved(atomics=0.0, shared=min(patient.time.shared, calm))
    line = _worst(counts, lambda c: c.atomics.turns)
    where = (
        f"{atomics.busiest:,} operations meet at one address, one after another"
        if atomics.busiest
        else f"{atomics.turns / atomics.requests:.3g} lanes of a warp meet at one address of shared memory"
    )
    yield Pitfall(
        kind="hot_atomics",
        kernel=counts.kernel,
        line=line.line if line else None,
        cost=f"{atomics.operations:,} atomic operations: {where}",
        weight=weight,
        remedy="Reduce within the warp (`__shfl_down_sync`, `__reduce_add_sync`) and the block first, with one "
        "atomic for each block; or give each warp counters of its own.",
    )


def _missing_vectorisation(patient: _Patient) -> Iterator[Pitfall]:
    """Side by side, at most 4 bytes a lane, in a launch that waits for memory with too few bytes in flight."""
    counts, occupancy = patient.counts, patient.occupancy
    if occupancy is None or not patient.time.waits_for_memory:
        return

    def small(c: Counts) -> float:
        moved = (c.loads, c.stores)
        requests, lines = sum(t.requests for t in moved), sum(t.lines for t in moved)
        side_by_side = lines <= 1.1 * sum(map(_least_lines, moved)) and sum(t.sectors for t in moved) >= requests
        used = sum(t.useful_bytes for t in moved)
        return requests if requests and side_by_side and 16 * requests <= used <= 128 * requests else 0.0

    line = _worst(counts, small)
    if line is None:
        return
    now, wide = patient.reach(occupancy.active_warps), patient.reach(occupancy.active_warps, 16.0)
    traffic = line.loads if line.loads.requests else line.stores
    yield Pitfall(
        kind="missing_vectorisation",
        kernel=counts.kernel,
        line=line.line,
        cost=f"a warp moves {traffic.useful_bytes / traffic.requests:.3g} bytes a request where 512 are possible: "
        "too little is under way to keep the memory busy",
        weight=max(0.0, 1 - now / wide),  # scattered lines beside this one may have more in flight already
        remedy="Load and store 16 bytes a thread (float4, int4, or four elements at once) where rows are aligned, "
        "and handle the rest element by element.",
    )


def _uncovered_tail(patient: _Patient) -> Iterator[Pitfall]:
    """A quarter of the threads or more that touch no memory: blocks that reach far behind the end of the data."""
    idle = patient.counts.idle_threads / patient.threads
    if idle < 0.25 or idle >= 1:
        return
    warps = float(patient.occupancy.active_warps if patient.occupancy else _MAX_WARPS)
    yield Pitfall(
        kind="uncovered_tail",
        kernel=patient.counts.kernel,
        line=None,
        cost=f"{patient.counts.idle_threads:,} of {patient.threads:,} threads have nothing to do",
        weight=1 - patient.reach(warps * (1 - idle)) / patient.reach(warps),
        remedy="Fit the grid to the data (`ceil_div` of the extent that the blocks cover) and the block to the rows, "
        "or let fewer threads loop with a stride.",
    )


_FINDERS: Final[tuple[Callable[[_Patient], Iterator[Pitfall]], ...]] = (
    _uncoalesced,
    _bank_conflicts,
    _divergence,
    _low_occupancy,
    _spills,
    _hot_atomics,
    _missing_vectorisation,
    _uncovered_tail,
)
