"""The time to expect on a named GPU, from counts: an estimate, never a measurement.

A launch takes what its most expensive resource takes, and a little more where several are nearly as dear: each
resource's term is work over throughput, in the manner of the roofline (Williams, Waterman and Patterson, 2009) with
one roof for each unit of a multiprocessor and each level of memory; and `latency` is what the warps that fit on a
multiprocessor leave unhidden (Volkov, "Understanding Latency Hiding on GPUs", 2016: Little's law). Counts are those
of PTX, so the constants of `Tuning` stand for what ptxas makes of it; they were fitted to times measured on an H200
by benchmarks/simulator/estimate_vs_gpu.py, which says on what, and how well others are met.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from common.contract import KernelResources
from common.contract.counters import Estimate, Evidence, LaunchCounts, LaunchEstimate
from common.demangled import without_parameters
from evaluator.stages.compile.resources import occupancy
from evaluator.stages.profile.gpu_models import Machine

_SECTOR_BYTES: Final = 32
_WARP: Final = 32
_ISSUES_PER_CLOCK: Final = 4
"""Schedulers of a multiprocessor, one warp-instruction each."""


@dataclass(frozen=True)
class Tuning:
    """What no data sheet says."""

    plan_us: float = 2.0
    """From the first event to the second around a plan, beside its launches."""
    launch_us: float = 2.5
    """What each launch adds, however small."""
    sharpness: float = 3.3
    """Exponent of the norm that joins the terms: large for the most expensive alone, 1 for their sum."""
    dram_share: float = 0.92
    """Reached of the peak bandwidth of memory."""
    l2_share: float = 0.67
    """Reached of the L2 cache's peak."""
    partial_write: float = 3.2
    """Cost of a sector that is written in part, in whole ones."""
    issue_share: float = 0.75
    """Instructions that ptxas leaves of those in PTX, moves and parameters left out."""
    special_issues: float = 3.2
    """Ordinary instructions around one of the special function unit: scaling, refinement."""
    line_clocks: float = 1.1
    """Of the L1 cache's tags for each line of a request."""
    max_in_flight: float = 6.0
    """Loads of one warp that are under way at once, at most; else those between two of its branches."""
    unrolled: float = 1.5
    """Iterations of a loop in PTX that ptxas puts together, in the mean."""
    special_wait_clocks: float = 110.0
    """Latency of a special function or a division with what is around it."""
    dram_wait: float = 1.5
    """Latency of memory under load, in those of an idle one."""
    start_clocks: float = 175.0
    """Until a block's warps have started and ended."""
    block_clocks: float = 160.0
    """Between the starts of two blocks on one multiprocessor."""
    dependence: float = 0.49
    """Share of a warp's instructions that wait for the one before."""
    atomic_clocks: float = 3.6
    """Between two operations at one address of global memory."""
    shared_atomic_clocks: float = 1.35
    """Between two operations at one word of shared memory."""


TUNING: Final = Tuning()


def estimate(
    evidence: Evidence,
    resources: Sequence[KernelResources],
    machine: Machine,
    floor_us: float = 0.0,
    *,
    moved_bytes: Sequence[int] = (),
    tuning: Tuning = TUNING,
) -> Estimate:
    """The time of one plan at the sizes of `evidence`.

    `resources`: what ptxas said of the kernels. `moved_bytes`: of each fill and each copy in the plan, read and
    written together. `floor_us`: what no right answer can be faster than.
    """
    known = {_plain(one.kernel): one for one in resources}
    launches = tuple(
        _launch(counts, known.get(_plain(counts.kernel)), machine, tuning) for counts in evidence.launches
    )
    moves_us = [
        size / (machine.peaks.memory_gb_s * tuning.dram_share * 1e3) + tuning.launch_us for size in moved_bytes
    ]
    total_us = tuning.plan_us + sum(launch.latency_us for launch in launches) + sum(moves_us)
    return Estimate(
        gpu=machine.name,
        sizes=dict(evidence.sizes),
        latency_us=_round(max(total_us, floor_us)),
        floor_us=_round(floor_us),
        launches=launches,
    )


def _plain(kernel: str) -> str:
    """`ns::scale<float, 4>`: without what it returns and takes."""
    return without_parameters(kernel)


def _round(time_us: float) -> float:
    return float(f"{time_us:.5g}")


def _launch(counts: LaunchCounts, known: KernelResources | None, machine: Machine, tuning: Tuning) -> LaunchEstimate:
    terms = _Terms(counts, known, machine, tuning).all_us()
    joined = sum(term**tuning.sharpness for term in terms.values()) ** (1 / tuning.sharpness)
    return LaunchEstimate(
        kernel=counts.kernel,
        latency_us=_round(tuning.launch_us + joined),
        limited_by=max(terms, key=lambda name: terms[name]),
        terms_us={name: _round(term) for name, term in terms.items() if term > 0},
    )


class _Terms:
    """What one launch asks of each resource of a machine."""

    def __init__(self, counts: LaunchCounts, known: KernelResources | None, machine: Machine, tuning: Tuning) -> None:
        self.counts, self.machine, self.tuning = counts, machine, tuning
        self.blocks = math.prod(counts.grid)
        threads = math.prod(counts.block)
        self.block_warps = math.ceil(threads / _WARP)
        self.warps = self.blocks * self.block_warps
        self.local = known is None or known.stack_bytes > 0
        if known is None:
            known = KernelResources(
                kernel=counts.kernel,
                registers=32,
                spill_store_bytes=0,
                spill_load_bytes=0,
                stack_bytes=0,
                shared_bytes=0,
                constant_bytes=0,
                barriers=0,
            )
        dynamic = max(0, counts.shared_bytes - known.shared_bytes)
        active = occupancy(known, threads, dynamic, machine.arch).active_warps
        self.resident_blocks = max(1, active // self.block_warps)
        # The multiprocessor with most blocks ends last: the tail of the last wave.
        self.blocks_of_one = math.ceil(self.blocks / machine.multiprocessors)
        self.unevenness = self.blocks_of_one * machine.multiprocessors / self.blocks
        # A loop's loads wait for its end: what nvcc unrolled, or stands side by side, is under way together.
        together = counts.loads.requests / (counts.branches + self.warps)
        several = counts.branches > self.warps
        self.in_flight = min(max(together * (tuning.unrolled if several else 1.0), 1.0), tuning.max_in_flight)
        self.l2_reads = self._l2_reads()

    def all_us(self) -> dict[str, float]:
        """Microseconds by resource."""
        machine = self.machine
        of_one = {  # clocks of one multiprocessor, if the work were spread evenly
            "issue": self._issued() / _ISSUES_PER_CLOCK,
            **self._pipes(),
            "shared": self._shared(),
            "l1": self._lines() * self.tuning.line_clocks,
        }
        terms = {name: clocks / machine.multiprocessors * self.unevenness for name, clocks in of_one.items()}
        terms |= {
            "blocks": self.blocks_of_one * self.tuning.block_clocks,
            "l2": self._l2_bytes() / (machine.l2_bytes_per_clock * self.tuning.l2_share),
            "dram": self._dram_bytes() / (machine.dram_bytes_per_clock * self.tuning.dram_share),
            "atomics": self._atomics(),
            "latency": self._latency(),
        }
        return {name: machine.us(clocks) for name, clocks in terms.items()}

    def _class(self, *names: str) -> int:
        return sum(self.counts.by_class.get(name, 0) for name in names)  # type: ignore[call-overload]

    def _issued(self) -> float:
        kept = max(0, self.counts.warp_instructions - self._class("move", "constant"))
        return self.tuning.issue_share * kept + self.tuning.special_issues * self._class("special")

    def _pipes(self) -> dict[str, float]:
        lanes = self.machine.lanes_per_clock
        memory = self.counts.loads.requests + self.counts.stores.requests + self.counts.local.requests
        asked = {
            "fp32": self._class("fp32"),
            "fp64": self._class("fp64"),
            "fp16": self._class("fp16"),
            "integer": self.tuning.issue_share * self._class("integer"),
            "special": self._class("special"),
            "conversion": self._class("conversion"),
            "lsu": memory + self.counts.shared.requests + self.counts.atomics.requests + self._class("shuffle"),
        }
        clocks = {name: count * _WARP / lanes[name] for name, count in asked.items()}
        return clocks | {"tensor": self.counts.flops.get("tensor", 0) / self.machine.tensor_flops_per_clock()}

    def _shared(self) -> float:
        counts = self.counts
        # Atomics are told apart by space only where all are of one: then no address of global memory is the busiest.
        turns = counts.atomics.turns if counts.shared.requests or not counts.atomics.busiest else 0
        return counts.shared.wavefronts + turns * self.tuning.shared_atomic_clocks

    def _lines(self) -> float:
        counts = self.counts
        return counts.loads.lines + counts.stores.lines + (counts.local.lines if self.local else 0)

    def _l2_reads(self) -> float:
        """Sectors that L1 does not hold: each once for each block, and again as far as the warps' lines push out each
        other's before their next sector is wanted.
        """
        loads = self.counts.loads
        if not (loads.requests and loads.lines):
            return 0.0
        resident = min(self.resident_blocks, self.blocks_of_one) * self.block_warps
        wanted_bytes = resident * loads.lines / loads.requests * self.in_flight * 128
        room_bytes = self.machine.l1_bytes - self.counts.shared_bytes * self.resident_blocks
        lost = max(0.0, 1 - room_bytes / wanted_bytes)
        once = min(loads.block_sectors or loads.unique_sectors, loads.sectors)
        return once + (loads.sectors - once) * lost

    def _l2_bytes(self) -> float:
        stores = self.counts.stores
        partial = stores.sectors - min(stores.least_sectors, stores.sectors)
        written = stores.sectors + partial * (self.tuning.partial_write - 1)
        local = self.counts.local.sectors if self.local else 0
        return (self.l2_reads + written + local) * _SECTOR_BYTES

    def _dram_bytes(self) -> float:
        return (self.counts.loads.unique_sectors + self.counts.stores.unique_sectors) * _SECTOR_BYTES

    def _atomics(self) -> float:
        """Operations at one address, or in one line of 128 bytes, wait for each other."""
        atomics = self.counts.atomics
        if not atomics.busiest:
            return 0.0
        busiest = float(atomics.busiest)
        if self.counts.counted_blocks < self.blocks:
            # The largest of many counts in a sample is larger than its share by chance, about twice its root.
            sampled = busiest * self.counts.counted_blocks / self.blocks
            busiest *= max(0.5, 1 - 2 / math.sqrt(max(sampled, 1.0)))
        if not self.counts.shared.requests:  # else most operations may have been there
            lines = max(1.0, atomics.addresses * 4 / 128)
            busiest = max(busiest, atomics.operations / lines)
        return busiest * self.tuning.atomic_clocks

    def _latency(self) -> float:
        """Clocks in which one block after the other goes through its warps' chains of dependent instructions."""
        counts, tuning, clocks = self.counts, self.tuning, self.machine.latency_clocks
        each = 1 / self.warps
        loads = counts.loads
        chain = counts.warp_instructions * each * tuning.dependence * clocks["alu"]
        if loads.sectors:
            from_dram = min(loads.unique_sectors / loads.sectors, 1.0)
            from_l2 = max(0.0, min(self.l2_reads / loads.sectors, 1.0) - from_dram)
            from_l1 = 1 - from_dram - from_l2
            waits = from_dram * clocks["dram"] * tuning.dram_wait + from_l2 * clocks["l2"] + from_l1 * clocks["l1"]
            requests = loads.requests * each
            chain += requests * waits / self.in_flight
        chain += self._class("special") * each * tuning.special_wait_clocks
        chain += counts.local.requests * each * clocks["l1"] if self.local else 0.0
        shared = counts.shared.requests * each
        together = counts.shared.requests / (counts.branches + counts.barriers + self.warps)
        chain += shared * clocks["shared"] / min(max(together, 1.0), tuning.max_in_flight)
        chain += (counts.barriers + self._class("shuffle")) * each * clocks["shared"]
        waves = max(1.0, self.blocks_of_one / self.resident_blocks)
        if waves < 4:  # later the blocks of different waves overlap
            waves = math.ceil(waves)
        return waves * (tuning.start_clocks + chain)


def with_naive(found: Estimate, naive: Estimate | None) -> Estimate:
    """The estimate beside that of the problem's naive kernel at the same sizes on the same GPU."""
    if naive is None or naive.sizes != found.sizes or naive.gpu != found.gpu:
        return found
    speedup = float(f"{naive.latency_us / found.latency_us:.4g}")
    return found.model_copy(update={"naive_latency_us": naive.latency_us, "speedup": speedup})
