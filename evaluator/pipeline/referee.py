"""Judging a program that compiled: verified and, on a GPU, timed, by a referee in this process or in another one."""

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
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
from evaluator.backends.session import Backend, Program, Session, UnsupportedError
from evaluator.errors import InfrastructureError, Ruling
from evaluator.problems.arrays import NumpyRng, Rng
from evaluator.problems.catalogue import find_problem
from evaluator.problems.problem import Sizes
from evaluator.sandbox.retry import tried
from evaluator.seed import Seed
from evaluator.stages.launch.checked_plan import CheckedPlan, PlanSource, SizedPlan
from evaluator.stages.launch.planning import plan_launches
from evaluator.stages.profile.gpu_counters import Counted, count
from evaluator.stages.profile.sampled_counters import sample, shortfall
from evaluator.stages.profile.sim_counters import tally
from evaluator.stages.time.measurement import Baseline, TimingRound, measure
from evaluator.stages.time.roofline import Roofline, precision_of
from evaluator.stages.time.statistics import Measurement, Pooled, below_floor, clocks_agree, summarise, too_fast
from evaluator.stages.verify.sanitizer_run import sanitize
from evaluator.stages.verify.trials import asked_sizes, plan_trials, rehearsal
from evaluator.stages.verify.verification import Verified, verify

Progress = Callable[[str], None]
_REHEARSAL_S: Final = 5.0


@dataclass(frozen=True)
class JudgeRequest:
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
    """See `CheckedPlan`."""
    unrehearsed: bool = False
    """Whether the simulator could not rehearse it for want of a feature: then other tools look."""
    lined_cubin: bytes = b""
    """The program's cubin with its lines, for those tools; empty where they do not look."""
    __pydantic_config__: ClassVar = BYTES_AS_BASE64

    @property
    def checked_plan(self) -> CheckedPlan:
        """The plan, fitted to the program again."""
        planned = plan_launches(find_problem(self.problem), self.program, self.plan, "", self.static_shared_bytes)
        if planned.checked_plan is None:
            raise InfrastructureError("A plan that fitted the program fits it no more.", "Please report it.")
        return replace(
            planned.checked_plan, plan_source=self.plan_source, binding=self.binding, source_lines=self.source_lines
        )

    def to_json(self) -> bytes:
        """As it travels."""
        return _orders.dump(self)

    @staticmethod
    def from_json(text: bytes) -> "JudgeRequest":
        """Raises ValueError for anything else."""
        return _orders.load(text)


@dataclass(frozen=True)
class JudgeResult:
    """What a referee found."""

    verified: Verified
    look: TimingRound | None = None
    second_look: TimingRound | None = None
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
    def from_json(text: bytes) -> "JudgeResult":
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


class Target(Protocol):
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
class RemoteTarget:
    """A venue that other processes have: programs can be compiled for it here, and judged there."""

    name: Literal["gpu", "sim"]
    device: str
    arch: str


class Referee(Target, Protocol):
    """Who judges: the simulator's in this process, or the one that owns a GPU."""

    def judge(self, order: JudgeRequest, progress: Progress) -> JudgeResult:
        """Raises UnsupportedError, UsageError, InfrastructureError."""


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

    def judge(self, order: JudgeRequest, progress: Progress) -> JudgeResult:
        # All of it again, from the same seed: the kernel has done nothing that anyone could have kept.
        return tried(lambda: self._judge(order, progress))

    def _judge(self, order: JudgeRequest, progress: Progress) -> JudgeResult:
        generator = Seed(order.secret).generator()
        checked_plan = order.checked_plan
        trials = plan_trials(checked_plan.problem, order.settings, generator)
        if self._rehearses:
            trials = rehearsal(checked_plan.problem, trials)

        def prepare() -> Session:
            return self._backend.prepare(order.program, order.settings)

        with prepare() as session:
            rng, seed = NumpyRng(generator), int(generator.integers(1, 1 << 62))
            verified = verify(checked_plan, session, order.settings, rng, trials, _counted(progress), seed)
            if verified.ruling:
                return JudgeResult(verified)
            evidence = tally(checked_plan, session, prepare, order.settings, rng)
            if evidence is None or self._rehearses or order.settings.estimate_for is None:
                return JudgeResult(verified, evidence=evidence)
            # A run that was ended for its time has ended its session.
            whole = all(one.counted_blocks == prod(one.grid) for one in evidence.launches)
            with nullcontext(session) if whole else prepare() as sampling:
                sampled = sample(checked_plan, sampling, order.settings, rng)
            lacking = shortfall(sampled, evidence, checked_plan) if sampled else None
            if lacking:
                return JudgeResult(_warned(verified, (lacking,)), evidence=evidence, sampled=evidence)
            return JudgeResult(verified, evidence=evidence, sampled=sampled or evidence)


@dataclass(frozen=True)
class Instruments:
    """The tools that look into programs on one GPU."""

    profiler: Profiler
    sanitizer: Sanitizer


def judge_and_time(
    order: JudgeRequest,
    open_session: Callable[[CheckedPlan, int], Session],
    make_dice: Callable[[int], Rng],
    baseline: Baseline,
    progress: Progress,
    instruments: Instruments | None = None,
) -> JudgeResult:
    """Verify, time, and where it is asked for profile, with contents from `make_dice(seed)`, in the process that owns
    the GPU.

    `open_session(launchable, memory_bytes)` opens a session that can hold the largest run.
    Raises UnsupportedError, UsageError, InfrastructureError.
    """
    settings, checked_plan = order.settings, order.checked_plan
    problem = checked_plan.problem
    generator = Seed(order.secret).generator()
    timed_sizes = asked_sizes(problem, settings.sizes) if settings.sizes else problem.timing_sizes
    trials = plan_trials(problem, settings, generator, timed_too=settings.timing)
    rng = make_dice(int(generator.integers(1 << 62)))
    clock = Stopwatch()
    warnings: tuple[str, ...] = ()
    if order.unrehearsed and settings.sanitize and instruments is not None:
        few = rehearsal(problem, trials)
        lined = replace(order.program, cubin=order.lined_cubin or order.program.cubin)
        sanitized = sanitize(checked_plan, lined, settings, rng, few, instruments.sanitizer)
        clock.lap("sanitize")
        if sanitized.verified is not None:
            return JudgeResult(sanitized.verified, phases_s=clock.laps_s)
        warnings = sanitized.warnings
    look, second = None, None
    with open_session(checked_plan, _largest_bytes(checked_plan, [trial.sizes for trial in trials])) as session:
        clock.lap("context")
        verified = _warned(verify(checked_plan, session, settings, rng, trials, _counted(progress)), warnings)
        clock.lap("verify")
        if verified.ruling:
            return JudgeResult(verified, phases_s=clock.laps_s)
        if settings.timing:
            look = measure(
                checked_plan, session, timed_sizes, settings, rng, baseline, lambda done: progress(f"time {done}")
            )
            clock.lap("time")
    if look is not None and look.measurement is not None and _suspicious(checked_plan, look):
        sizes = larger(timed_sizes)
        with open_session(checked_plan, _largest_bytes(checked_plan, [sizes])) as session:
            second = measure(checked_plan, session, sizes, settings, rng, baseline)
        clock.lap("time")
    counted = None
    if settings.profile and instruments is not None and not any(seen and seen.ruling for seen in (look, second)):
        progress(Phase.PROFILE)
        shared = order.static_shared_bytes
        counted = count(checked_plan, order.program, shared, timed_sizes, settings, rng, instruments.profiler)
        clock.lap("profile")
    return JudgeResult(verified, look, second, clock.laps_s, counted)


def _warned(verified: Verified, warnings: tuple[str, ...]) -> Verified:
    correctness = verified.correctness
    if not warnings or correctness is None:
        return verified
    told = correctness.model_copy(update={"warnings": (*correctness.warnings, *warnings)})
    return replace(verified, correctness=told)


def rehearse(referee: Referee | None, order: JudgeRequest) -> JudgeResult | UnsupportedError | None:
    """What a rehearsal showed, where it matters: a fault, a race, or a wrong answer that a GPU may not show; of a
    right submission, what was counted; or what the simulator lacks.

    That a simulator cannot run a program, or not in time, says nothing about a GPU: then it is None. Raises
    InfrastructureError.
    """
    if referee is None or not order.settings.rehearse:
        return None
    limited = order.settings.model_copy(update={"run_timeout_s": min(order.settings.run_timeout_s, _REHEARSAL_S)})
    try:
        judged = referee.judge(replace(order, settings=limited), lambda text: None)
    except UnsupportedError as missing:
        return missing
    ruling = judged.verified.ruling
    if ruling is None:
        return judged
    if ruling.status not in (Status.TIMEOUT, Status.OUT_OF_MEMORY):
        said = replace(ruling, message=f"In the rehearsal on the simulator. {ruling.message}")
        return replace(judged, verified=replace(judged.verified, ruling=said))
    return None


def also_rehearsed(judged: JudgeResult, rehearsed: JudgeResult | None) -> JudgeResult:
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


def timed(checked_plan: CheckedPlan, judged: JudgeResult, remember: Callable[[Measurement], Pooled]) -> Timed:
    """Statistics of the timed launches, and what their clocks, answers and floor say about the submission.

    `remember(measurement)` gives the samples of all evaluations of the same program and plan.
    """
    assert judged.look is not None
    for look in (judged.look, judged.second_look):
        if look is not None and look.ruling is not None:
            return Timed(_with_failure(judged.verified, look), None, look.ruling)
    look = judged.second_look or judged.look
    measurement, roofline = look.measurement, roofline_of(checked_plan, look)
    assert measurement is not None
    ruling = None if look.printed else clocks_agree(measurement.clocks)
    if ruling is None and judged.second_look and roofline:
        ruling = too_fast(measurement, roofline)
    pooled = None if ruling else remember(measurement)
    return Timed(judged.verified, summarise(measurement, roofline, pooled), ruling)


def _with_failure(verified: Verified, look: TimingRound) -> Verified:
    """The correctness as a failed timed launch leaves it."""
    correctness = verified.correctness
    assert correctness is not None
    failed = {"passed": False, "trials": (*correctness.trials, *look.trials), "fault": look.fault}
    return replace(verified, correctness=correctness.model_copy(update=failed))


def roofline_of(checked_plan: CheckedPlan, look: TimingRound) -> Roofline | None:
    """What bounds the measured time from below; None where the device is not known."""
    if look.measurement is None:
        return None
    peaks, problem = peaks_of(look.measurement.device), checked_plan.problem
    return Roofline(problem.work(look.measurement.sizes), precision_of(problem), peaks) if peaks else None


def larger(sizes: Sizes) -> dict[str, int]:
    """Twice the first size: twice the work, and no other shape than before."""
    first = next(iter(sizes))
    return {**sizes, first: 2 * sizes[first]}


def _suspicious(checked_plan: CheckedPlan, look: TimingRound) -> bool:
    roofline = roofline_of(checked_plan, look)
    return look.measurement is not None and roofline is not None and below_floor(look.measurement, roofline)


def _largest_bytes(checked_plan: CheckedPlan, all_sizes: list[Sizes]) -> int:
    concretes = [checked_plan.at(sizes) for sizes in all_sizes]
    return max(
        (room_for([b.size_bytes for b in c.buffers]) for c in concretes if isinstance(c, SizedPlan)), default=0
    )


def _counted(progress: Progress) -> Callable[[int, int], None]:
    return lambda done, of: progress(f"{Phase.VERIFY} {done}/{of}")


_orders = Json(JudgeRequest)
_findings = Json(JudgeResult)
