"""The measured facts that a reward is made of, and how they are read off the parts of a verdict."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from common.contract import Compilation, Correctness, Profile, Settings, Severity, Status, Timing
from common.gpu_limits import GpuLimits, limits_of

_UNKNOWN_LIMITS = GpuLimits(64, 32, 100 << 10, 99 << 10)
"""Where no architecture is known: rewards that were signed count on these numbers."""


class Measure(StrEnum):
    """What a backend may or may not be able to measure in a run."""

    SPEEDUP = "speedup"
    MEMORY_EFFICIENCY = "memory_efficiency"
    REGISTERS = "registers"
    SHARED_MEMORY = "shared_memory"
    OCCUPANCY = "occupancy"
    LANE_EFFICIENCY = "lane_efficiency"
    BANK_CONFLICTS = "bank_conflicts"
    WARP_SHUFFLE = "warp_shuffle"
    BANDWIDTH = "bandwidth"
    COVERAGE = "coverage"
    SOL = "sol"


STATIC_MEASURES = frozenset({Measure.REGISTERS, Measure.SHARED_MEMORY, Measure.OCCUPANCY})
"""What ptxas tells about any submission that compiles, on every backend."""

COUNTED_MEASURES = frozenset(
    {Measure.MEMORY_EFFICIENCY, Measure.LANE_EFFICIENCY, Measure.BANK_CONFLICTS, Measure.WARP_SHUFFLE}
)
"""What the simulator's counts add, also in the rehearsal of what a GPU then runs."""

TIMED_MEASURES = frozenset({Measure.SPEEDUP, Measure.BANDWIDTH, Measure.SOL})
"""What timing on a GPU adds."""


def measures_of(backend: str, settings: Settings, status: Status, profile: Profile | None) -> frozenset[Measure]:
    """What a run on `backend` (`gpu` or `sim`) with these settings measures of a submission that passes.

    One that passed and of which nothing was counted, for want of time or of a feature, is not held to counts.
    """
    timed = backend == "gpu" and settings.timing
    counts = backend == "sim" or settings.rehearse
    counted = counts and (status is not Status.PASSED or (profile is not None and profile.evidence is not None))
    estimated = backend == "sim" and settings.estimate_for is not None
    speed = TIMED_MEASURES if timed else frozenset({Measure.SPEEDUP}) if estimated else frozenset()
    return STATIC_MEASURES | speed | (COUNTED_MEASURES if counted else frozenset())


def measures_of_host_code(
    settings: Settings, status: Status, timing: Timing | None, profile: Profile | None
) -> frozenset[Measure]:
    """The same for a submission whose host code runs: no counts, and of one that passed what there is alone."""
    passed = status is Status.PASSED
    speed = frozenset({Measure.SPEEDUP}) if settings.timing and (timing or not passed) else frozenset()
    covered = profile is not None and profile.coverage is not None
    return speed | (frozenset({Measure.COVERAGE}) if covered or not passed else frozenset())


@dataclass(frozen=True)
class Facts:
    """What was measured about one submission. None means not measured; `measurable` tells why.

    A None that is in `measurable` was lost because the submission failed first and counts as 0; any other None could
    not be measured in this run for any submission, and its term is left out.
    """

    status: Status
    compiled: bool
    correct: bool
    pass_rate: float = 0.0
    """Passed trials over planned trials, in [0, 1]."""
    timed_out: bool = False
    target_speedup: float = 2.0
    speedup: float | None = None
    """Lower end of the confidence interval, or the estimate."""
    speedup_stderr: float | None = None
    """Standard error of the speedup; None for an estimate."""
    estimated: bool = False
    """True when `speedup` is the simulator's estimate."""
    previous_best_speedup: float | None = None
    """Best speedup of the caller's earlier submissions for this problem."""
    warnings: int = 0
    """Compiler warnings."""
    hazard_warnings: int = 0
    """What no kernel may rely on, and this one did: the hazards that its correctness lists."""
    registers: int | None = None
    """Registers per thread of the neediest kernel."""
    max_warps: int = 64
    """Warps that a multiprocessor can hold."""
    spill_bytes: int = 0
    """Bytes that all kernels spill, stores and loads."""
    shared_bytes: int | None = None
    """Shared memory per block of the neediest launch, static and dynamic."""
    shared_limit_bytes: int = 163 << 10
    """Shared memory per block that the GPU allows."""
    occupancy: float | None = None
    """Theoretical occupancy of the launch with the lowest."""
    memory_efficiency: float | None = None
    lane_efficiency: float | None = None
    bank_conflict_ways: float | None = None
    bandwidth_share: float | None = None
    """Memory bandwidth reached over the device's peak."""
    warp_shuffle: bool | None = None
    coverage: float | None = None
    sol_score: float | None = None
    measurable: frozenset[Measure] = frozenset()

    @property
    def passed(self) -> bool:
        """True when the submission's speed counts."""
        return self.status is Status.PASSED and self.compiled and self.correct


FACT_OF_MEASURE = {
    Measure.SPEEDUP: "speedup",
    Measure.MEMORY_EFFICIENCY: "memory_efficiency",
    Measure.REGISTERS: "registers",
    Measure.SHARED_MEMORY: "shared_bytes",
    Measure.OCCUPANCY: "occupancy",
    Measure.LANE_EFFICIENCY: "lane_efficiency",
    Measure.BANK_CONFLICTS: "bank_conflict_ways",
    Measure.WARP_SHUFFLE: "warp_shuffle",
    Measure.BANDWIDTH: "bandwidth_share",
    Measure.COVERAGE: "coverage",
    Measure.SOL: "sol_score",
}


def facts_of(
    *,
    status: Status,
    compilation: Compilation | None,
    correctness: Correctness | None,
    timing: Timing | None,
    profile: Profile | None,
    settings: Settings,
    measurable: Iterable[Measure] = STATIC_MEASURES,
    previous_best_speedup: float | None = None,
) -> Facts:
    """Collect the facts of a verdict's parts.

    `measurable` names what this backend measures in this run for a submission that passes; without it a failing
    submission could not be told from a run that measures less.
    """
    profile = profile or Profile()
    kernels = compilation.kernels if compilation else ()
    launches = profile.occupancy
    shared = [launch.shared_bytes for launch in launches] or [kernel.shared_bytes for kernel in kernels]
    limits = _limits(compilation)
    verified = correctness is not None and correctness.passed
    return Facts(
        status=status,
        compiled=compilation is not None and compilation.succeeded is True,
        correct=verified and status not in (Status.INCORRECT, Status.RUNTIME_ERROR, Status.REJECTED),
        pass_rate=_pass_rate(correctness),
        timed_out=status is Status.TIMEOUT,
        target_speedup=settings.target_speedup,
        speedup=timing.speedup_low if timing else profile.estimated_speedup,
        speedup_stderr=timing.speedup_stderr if timing else None,
        estimated=timing is None and profile.estimated_speedup is not None,
        previous_best_speedup=previous_best_speedup,
        warnings=sum(d.severity is Severity.WARNING for d in compilation.diagnostics) if compilation else 0,
        hazard_warnings=len(correctness.hazards) if correctness else 0,
        registers=max((kernel.registers for kernel in kernels), default=None),
        max_warps=max((launch.max_warps for launch in launches), default=limits.max_warps),
        spill_bytes=sum(kernel.spill_store_bytes + kernel.spill_load_bytes for kernel in kernels),
        shared_bytes=max(shared, default=None),
        shared_limit_bytes=limits.shared_per_block_bytes,
        occupancy=min((launch.occupancy for launch in launches), default=None),
        memory_efficiency=profile.memory_efficiency,
        lane_efficiency=profile.lane_efficiency,
        bank_conflict_ways=profile.bank_conflict_ways,
        bandwidth_share=_bandwidth_share(profile, timing),
        warp_shuffle=profile.warp_shuffles,
        coverage=profile.coverage,
        sol_score=timing.sol_score if timing else None,
        measurable=frozenset(measurable),
    )


def _limits(compilation: Compilation | None) -> GpuLimits:
    try:
        return limits_of((compilation and compilation.arch) or "")
    except KeyError:  # nothing was compiled, or a receipt names what another release knew
        return _UNKNOWN_LIMITS


def _bandwidth_share(profile: Profile, timing: Timing | None) -> float | None:
    """As the profiler counted it; else from the bytes that the problem must move, which is at most that."""
    if profile.bandwidth_share is not None:
        return profile.bandwidth_share
    return timing.bandwidth_share if timing else None


def _pass_rate(correctness: Correctness | None) -> float:
    if correctness is None or not correctness.planned_trials:
        return 0.0
    return min(sum(trial.passed for trial in correctness.trials) / correctness.planned_trials, 1.0)
