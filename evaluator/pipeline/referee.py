"""Judging a program that compiled: verified and, on a GPU, timed, by a referee in this process or in another one."""

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from math import prod
from typing import ClassVar, Final, Literal, Protocol

from common.contract import Phase, Settings, Status, Timing
from common.contract.counters import Evidence
from common.launch_plan import LaunchPlan
from common.wire import BYTES_AS_BASE64, Json
from evaluator.backends.gpu.device.peaks import peaks_of
from evaluator.backends.gpu.shared_memory import room_for
from evaluator.backends.gpu.tools.nsight import Profiler
from evaluator.backends.gpu.tools.sanitizer import Sanitizer
from evaluator.backends.session import Backend, Program, Session, Unsupported
from evaluator.errors import InfrastructureFault, JobKilled, Ruling
from evaluator.problems.arrays import Dice, NumpyDice
from evaluator.problems.catalogue import find
from evaluator.problems.problem import Sizes
from evaluator.sandbox.retry import MOST_TRIES
from evaluator.seed import Seed
from evaluator.stages.launch.checked_plan import Concrete, Launchable, PlanSource
from evaluator.stages.launch.planning import plan_launches
from evaluator.stages.profile.gpu_counters import Counted, count
from evaluator.stages.profile.sampled_counters import sample, shortfall
from evaluator.stages.profile.sim_counters import tally
from evaluator.stages.time.measurement import Look, Opponent, measure
from evaluator.stages.time.roofline import Roofline, precision_of
from evaluator.stages.time.statistics import Measurement, Pooled, below_floor, clocks_agree, summarise, too_fast
from evaluator.stages.verify.sanitizer_run import sanitize
from evaluator.stages.verify.trials import asked_sizes, plan_trials, rehearsal
from evaluator.stages.verify.verification import Verified, verify

Progress = Callable[[str], None]
_REHEARSAL_S: Final = 5.0


@dataclass(frozen=True)
class Order:
    """What a referee needs to know: plain values, which travel between processes."""

    problem: str
    program: Program
    plan: LaunchPlan
    plan_source: PlanSource
    binding: str
    static_shared_bytes: Mapping[str, int]
    """By the kernel's demangled name."""
    settings: Settings
    local_memory: bool
    """Whether its kernels keep anything in local memory, which outlives them in a context."""
    secret: bytes
    """The seed; it never reaches a runner."""
    source_lines: int = 0
    """See `Launchable`."""
    unrehearsed: bool = False
    """Whether the simulator could not rehearse it for want of a feature: then other tools look."""
    lined_cubin: bytes = b""
    """The program's cubin with its lines, for those tools; empty where they do not look."""
    __pydantic_config__: ClassVar = BYTES_AS_BASE64

    @property
    def launchable(self) -> Launchable:
        """The plan, fitted to the program again."""
        planned = plan_launches(find(self.problem), self.program, self.plan, "", self.static_shared_bytes)
        if planned.launchable is None:
            raise InfrastructureFault("A plan that fitted the program fits it no more.", "Please report it.")
        return replace(
            planned.launchable, plan_source=self.plan_source, binding=self.binding, source_lines=self.source_lines
        )

    def to_json(self) -> bytes:
        """As it travels."""
        return _orders.dump(self)

    @staticmethod
    def from_json(text: bytes) -> "Order":
        """Raises ValueError for anything else."""
        return _orders.load(text)


@dataclass(frozen=True)
class Judged:
    """What a referee found."""

    verified: Verified
    look: Look | None = None
    second_look: Look | None = None
    """At a larger size, where the first was faster than any right answer can be."""
    phases_s: Mapping[str, float] = field(default_factory=dict)
    """Where the referee's time went."""
    counted: Counted | None = None
    """What the GPU's profiler gave, where it was asked for and the submission passed."""
    evidence: Evidence | None = None
    """What the simulator counted, of a submission that it found right."""
    sampled: Evidence | None = None
    """Counts for an estimate of time, where there is no GPU to measure it and the submission passed."""

    def to_json(self) -> bytes:
        return _findings.dump(self)

    @staticmethod
    def from_json(text: bytes) -> "Judged":
        return _findings.load(text)


class Stopwatch:
    """Wall-clock time by phase."""

    def __init__(self) -> None:
        self.laps_s: dict[str, float] = {}
        self._since_s = time.monotonic()

    def lap(self, phase: str) -> None:
        """Count the time since the last lap for `phase`."""
        now_s = time.monotonic()
        self.laps_s[phase] = round(self.laps_s.get(phase, 0.0) + now_s - self._since_s, 5)
        self._since_s = now_s


class Venue(Protocol):
    """Where programs are judged, as far as a verdict and a compiler need to know."""

    @property
    def name(self) -> Literal["gpu", "sim"]:
        """The backend."""

    @property
    def device(self) -> str:
        """The device, in words, for the receipt."""

    @property
    def arch(self) -> str:
        """What programs are compiled for unless the caller says otherwise, for example `sm_90a`."""


@dataclass(frozen=True)
class Elsewhere:
    """A venue that other processes have: programs can be compiled for it here, and judged there."""

    name: Literal["gpu", "sim"]
    device: str
    arch: str


class Referee(Venue, Protocol):
    """Who judges: the simulator's in this process, or the one that owns a GPU."""

    def judge(self, order: Order, progress: Progress) -> Judged:
        """Raises Unsupported, UsageError, InfrastructureFault."""


class SimulatorReferee:
    """Judges on a backend without clocks, in this process."""

    def __init__(self, backend: Backend, rehearses: bool = False) -> None:
        """`rehearses`: only the few trials that take a moment, before a GPU does them all."""
        self._backend = backend
        self._rehearses = rehearses

    @property
    def name(self) -> Literal["gpu", "sim"]:
        return self._backend.name

    @property
    def device(self) -> str:
        return self._backend.device

    @property
    def arch(self) -> str:
        return self._backend.arch

    def judge(self, order: Order, progress: Progress) -> Judged:
        # All of it again, from the same seed: the kernel has done nothing that anyone could have kept.
        for _ in range(MOST_TRIES - 1):
            with suppress(JobKilled):
                return self._judge(order, progress)
        return self._judge(order, progress)

    def _judge(self, order: Order, progress: Progress) -> Judged:
        generator = Seed(order.secret).generator()
        launchable = order.launchable
        trials = plan_trials(launchable.problem, order.settings, generator)
        if self._rehearses:
            trials = rehearsal(launchable.problem, trials)

        def prepare() -> Session:
            return self._backend.prepare(order.program, order.settings)

        with prepare() as session:
            dice, seed = NumpyDice(generator), int(generator.integers(1, 1 << 62))
            verified = verify(launchable, session, order.settings, dice, trials, _counted(progress), seed)
            if verified.ruling:
                return Judged(verified)
            evidence = tally(launchable, session, prepare, order.settings, dice)
            if evidence is None or self._rehearses or order.settings.estimate_for is None:
                return Judged(verified, evidence=evidence)
            # A run that was ended for its time has ended its session.
            whole = all(one.counted_blocks == prod(one.grid) for one in evidence.launches)
            with nullcontext(session) if whole else prepare() as sampling:
                sampled = sample(launchable, sampling, order.settings, dice)
            lacking = shortfall(sampled, evidence, launchable) if sampled else None
            if lacking:
                return Judged(_warned(verified, (lacking,)), evidence=evidence, sampled=evidence)
            return Judged(verified, evidence=evidence, sampled=sampled or evidence)


@dataclass(frozen=True)
class Instruments:
    """The tools that look into programs on one GPU."""

    profiler: Profiler
    sanitizer: Sanitizer


def judge_and_time(
    order: Order,
    open_session: Callable[[Launchable, int], Session],
    make_dice: Callable[[int], Dice],
    opponent: Opponent,
    progress: Progress,
    instruments: Instruments | None = None,
) -> Judged:
    """Verify, time, and where it is asked for profile, with contents from `make_dice(seed)`, in the process that owns
    the GPU.

    `open_session(launchable, memory_bytes)` opens a session that can hold the largest run.
    Raises Unsupported, UsageError, InfrastructureFault.
    """
    settings, launchable = order.settings, order.launchable
    problem = launchable.problem
    generator = Seed(order.secret).generator()
    timed_sizes = asked_sizes(problem, settings.sizes) if settings.sizes else problem.timing_sizes
    trials = plan_trials(problem, settings, generator, timed_too=settings.timing)
    dice = make_dice(int(generator.integers(1 << 62)))
    clock = Stopwatch()
    warnings: tuple[str, ...] = ()
    if order.unrehearsed and settings.sanitize and instruments is not None:
        few = rehearsal(problem, trials)
        lined = replace(order.program, cubin=order.lined_cubin or order.program.cubin)
        sanitized = sanitize(launchable, lined, settings, dice, few, instruments.sanitizer)
        clock.lap("sanitize")
        if sanitized.verified is not None:
            return Judged(sanitized.verified, phases_s=clock.laps_s)
        warnings = sanitized.warnings
    look, second = None, None
    with open_session(launchable, _largest_bytes(launchable, [trial.sizes for trial in trials])) as session:
        clock.lap("context")
        verified = _warned(verify(launchable, session, settings, dice, trials, _counted(progress)), warnings)
        clock.lap("verify")
        if verified.ruling:
            return Judged(verified, phases_s=clock.laps_s)
        if settings.timing:
            look = measure(
                launchable, session, timed_sizes, settings, dice, opponent, lambda done: progress(f"time {done}")
            )
            clock.lap("time")
    if look is not None and look.measurement is not None and _suspicious(launchable, look):
        sizes = larger(timed_sizes)
        with open_session(launchable, _largest_bytes(launchable, [sizes])) as session:
            second = measure(launchable, session, sizes, settings, dice, opponent)
        clock.lap("time")
    counted = None
    if settings.profile and instruments is not None and not any(seen and seen.ruling for seen in (look, second)):
        progress(Phase.PROFILE)
        shared = order.static_shared_bytes
        counted = count(launchable, order.program, shared, timed_sizes, settings, dice, instruments.profiler)
        clock.lap("profile")
    return Judged(verified, look, second, clock.laps_s, counted)


def _warned(verified: Verified, warnings: tuple[str, ...]) -> Verified:
    correctness = verified.correctness
    if not warnings or correctness is None:
        return verified
    told = correctness.model_copy(update={"warnings": (*correctness.warnings, *warnings)})
    return replace(verified, correctness=told)


def rehearse(referee: Referee | None, order: Order) -> Judged | Unsupported | None:
    """What a rehearsal showed, where it matters: a fault, a race, or a wrong answer that a GPU may not show; of a
    right submission, what was counted; or what the simulator lacks.

    That a simulator cannot run a program, or not in time, says nothing about a GPU: then it is None. Raises
    InfrastructureFault.
    """
    if referee is None or not order.settings.rehearse:
        return None
    limited = order.settings.model_copy(update={"run_timeout_s": min(order.settings.run_timeout_s, _REHEARSAL_S)})
    try:
        judged = referee.judge(replace(order, settings=limited), lambda text: None)
    except Unsupported as missing:
        return missing
    ruling = judged.verified.ruling
    if ruling is None:
        return judged
    if ruling.status not in (Status.TIMEOUT, Status.OUT_OF_MEMORY):
        said = replace(ruling, message=f"In the rehearsal on the simulator. {ruling.message}")
        return replace(judged, verified=replace(judged.verified, ruling=said))
    return None


def also_rehearsed(judged: Judged, rehearsed: Judged | None) -> Judged:
    """What a GPU showed, with what a rehearsal before it watched and warned of."""
    shown = judged.verified.correctness
    seen = rehearsed.verified.correctness if rehearsed else None
    if shown is None or seen is None:
        return judged
    warnings = tuple(dict.fromkeys((*shown.warnings, *seen.warnings)))
    both = shown.model_copy(update={"watched": seen.watched, "warnings": warnings})
    return replace(judged, verified=replace(judged.verified, correctness=both))


@dataclass(frozen=True)
class Timed:
    """What the measurements mean."""

    verified: Verified
    timing: Timing | None
    ruling: Ruling | None


def timed(launchable: Launchable, judged: Judged, remember: Callable[[Measurement], Pooled]) -> Timed:
    """Statistics of the timed launches, and what their clocks, answers and floor say about the submission.

    `remember(measurement)` gives the samples of all evaluations of the same program and plan.
    """
    assert judged.look is not None
    for look in (judged.look, judged.second_look):
        if look is not None and look.ruling is not None:
            return Timed(_with_failure(judged.verified, look), None, look.ruling)
    look = judged.second_look or judged.look
    measurement, roofline = look.measurement, roofline_of(launchable, look)
    assert measurement is not None
    ruling = None if look.printed else clocks_agree(measurement.clocks)
    if ruling is None and judged.second_look and roofline:
        ruling = too_fast(measurement, roofline)
    pooled = None if ruling else remember(measurement)
    return Timed(judged.verified, summarise(measurement, roofline, pooled), ruling)


def _with_failure(verified: Verified, look: Look) -> Verified:
    """The correctness as a failed timed launch leaves it."""
    correctness = verified.correctness
    assert correctness is not None
    failed = {"passed": False, "trials": (*correctness.trials, *look.trials), "fault": look.fault}
    return replace(verified, correctness=correctness.model_copy(update=failed))


def roofline_of(launchable: Launchable, look: Look) -> Roofline | None:
    """What bounds the measured time from below; None where the device is not known."""
    if look.measurement is None:
        return None
    peaks, problem = peaks_of(look.measurement.device), launchable.problem
    return Roofline(problem.work(look.measurement.sizes), precision_of(problem), peaks) if peaks else None


def larger(sizes: Sizes) -> dict[str, int]:
    """Twice the first size: twice the work, and no other shape than before."""
    first = next(iter(sizes))
    return {**sizes, first: 2 * sizes[first]}


def _suspicious(launchable: Launchable, look: Look) -> bool:
    roofline = roofline_of(launchable, look)
    return look.measurement is not None and roofline is not None and below_floor(look.measurement, roofline)


def _largest_bytes(launchable: Launchable, all_sizes: list[Sizes]) -> int:
    concretes = [launchable.at(sizes) for sizes in all_sizes]
    return max((room_for([b.size_bytes for b in c.buffers]) for c in concretes if isinstance(c, Concrete)), default=0)


def _counted(progress: Progress) -> Callable[[int, int], None]:
    return lambda done, of: progress(f"{Phase.VERIFY} {done}/{of}")


_orders = Json(Order)
_findings = Json(Judged)
