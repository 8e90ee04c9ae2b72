"""Judging on a GPU, in the process that owns it: verified, timed and, where it is asked for, profiled."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from common.contract import Phase
from evaluator.backends.gpu.shared_memory import room_for
from evaluator.backends.gpu.tools.nsight import Profiler
from evaluator.backends.gpu.tools.sanitizer import Sanitizer
from evaluator.backends.session import Session
from evaluator.pipeline.gpu.turns import GpuTurn, GpuTurns
from evaluator.pipeline.progress import Progress, ProgressCallback, by_trials
from evaluator.pipeline.referee import JudgeRequest, JudgeResult, Stopwatch
from evaluator.pipeline.timing import larger, roofline_of
from evaluator.problems.arrays import Rng
from evaluator.problems.problem import Sizes
from evaluator.seed import Seed
from evaluator.stages.launch.checked_plan import CheckedPlan, SizedPlan
from evaluator.stages.profile.gpu_counters import count
from evaluator.stages.time.measurement import Baseline, GivenBaseline, TimingRound, measure
from evaluator.stages.time.statistics import below_floor
from evaluator.stages.verify.sanitizer_run import sanitize
from evaluator.stages.verify.trials import asked_sizes, rehearsal, trials_and_left_out
from evaluator.stages.verify.verification import verify


@dataclass(frozen=True)
class Instruments:
    """The tools that look into programs on one GPU."""

    profiler: Profiler
    sanitizer: Sanitizer


def judge_and_time(
    request: JudgeRequest,
    open_session: Callable[[CheckedPlan, int], Session],
    make_rng: Callable[[int], Rng],
    baseline: Baseline,
    progress: ProgressCallback,
    instruments: Instruments | None = None,
    turns: GpuTurns | None = None,
) -> JudgeResult:
    """Verify, time, and where it is asked for profile, with contents from `make_rng(seed)`, in the process that owns
    the GPU.

    `open_session(checked_plan, memory_bytes)` opens a session that can hold the largest run. `turns`: with the other
    referees of the GPU, if there are any.
    Raises UnsupportedError, UsageError, InfrastructureError.
    """
    settings, checked_plan = request.settings, request.checked_plan
    problem = checked_plan.problem
    generator = Seed(request.secret).generator()
    timed_sizes = asked_sizes(problem, settings.sizes) if settings.sizes else problem.timing_sizes
    trials, left_out = trials_and_left_out(problem, settings, generator, timed_too=settings.timing)
    rng = make_rng(int(generator.integers(1 << 62)))
    clock = Stopwatch()

    def launched(done: int) -> None:
        progress(Progress(Phase.TIME, str(done)))

    def verified_trial(event: Progress) -> None:
        progress(event)
        turn.give_way()

    def given() -> GivenBaseline | None:
        found = baseline.given(problem)
        clock.lap("baseline")
        return found

    warnings: tuple[str, ...] = ()
    with (turns or GpuTurns(None)).job() as turn:
        clock.lap("turn")
        turns_taken = _TimedTurn(turn, clock)
        if request.unrehearsed and settings.sanitize and instruments is not None:
            few = rehearsal(problem, trials)
            lined = replace(request.program, cubin=request.lined_cubin or request.program.cubin)
            sanitized = sanitize(checked_plan, lined, settings, rng, few, instruments.sanitizer)
            clock.lap("sanitize")
            if sanitized.verified is not None:
                return JudgeResult(sanitized.verified, phases_s=clock.laps_s)
            warnings = sanitized.warnings
        look, second = None, None
        with open_session(checked_plan, _largest_bytes(checked_plan, [trial.sizes for trial in trials])) as session:
            clock.lap("context")
            verified = verify(
                checked_plan, session, settings, rng, trials, by_trials(verified_trial), left_out=left_out
            ).warned(warnings)
            verified = verified.warned_of_what_hardly_tells()
            clock.lap("verify")
            if verified.ruling:
                return JudgeResult(verified, phases_s=clock.laps_s)
            if settings.timing:
                common = checked_plan, session, timed_sizes, settings, rng, baseline, turns_taken
                look = measure(*common, launched, given if baseline.is_given else None)
                clock.lap("after_time")
                if look.no_baseline is not None:
                    why = f"no baseline could be had, so nothing was timed: {'; '.join(look.no_baseline)}"
                    verified, look = verified.warned((why,)), None
        if look is not None and look.measurement is not None and _suspicious(checked_plan, look):
            sizes = larger(timed_sizes)
            with open_session(checked_plan, _largest_bytes(checked_plan, [sizes])) as session:
                second = measure(checked_plan, session, sizes, settings, rng, baseline, turns_taken)
            clock.lap("after_time")
        counted = None
        if settings.profile and instruments is not None and not any(seen and seen.ruling for seen in (look, second)):
            progress(Progress(Phase.PROFILE))
            shared = checked_plan.static_shared_bytes
            counted = count(checked_plan, request.program, shared, timed_sizes, settings, rng, instruments.profiler)
            clock.lap("profile")
    return JudgeResult(verified, look, second, clock.laps_s, counted)


class _TimedTurn:
    """A job's turn (`measurement.DeviceTurn`), by a watch: what goes on alone, what before that, and waiting."""

    def __init__(self, turn: GpuTurn, clock: Stopwatch) -> None:
        self._turn, self._clock = turn, clock

    def give_way(self) -> None:
        self._turn.give_way()

    @contextmanager
    def exclusive(self, no_new_contexts: bool) -> Iterator[None]:
        self._clock.lap("before_time")
        with self._turn.exclusive(no_new_contexts):
            self._clock.lap("turn")
            yield
            self._clock.lap("time")
        self._clock.lap("turn")


def _suspicious(checked_plan: CheckedPlan, look: TimingRound) -> bool:
    roofline = roofline_of(checked_plan, look)
    return look.measurement is not None and roofline is not None and below_floor(look.measurement, roofline)


def _largest_bytes(checked_plan: CheckedPlan, all_sizes: list[Sizes]) -> int:
    concretes = [checked_plan.at(sizes) for sizes in all_sizes]
    return max(
        (
            room_for([b.size_bytes for b in each.buffers])
            for c in concretes
            if isinstance(c, SizedPlan)
            for each in (c, *c.others)
        ),
        default=0,
    )
