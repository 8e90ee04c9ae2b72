"""The straight line: one submission in, one verdict out.

screen -> compile -> launch -> verify -> time -> profile -> verdict

The first half of it needs no device and can be done elsewhere, ahead: `prepare`.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from common.contract import Phase, Status, Submission, Verdict
from evaluator.backends.session import UnsupportedError
from evaluator.errors import InfrastructureError, InternalError, Ruling, UsageError
from evaluator.pipeline.build import build, known_points, record_ahead
from evaluator.pipeline.dialects.host_tier import could_take, in_host_tier, not_applied, unrecorded
from evaluator.pipeline.grading_job import UNPREPARED, GradingJob, Preparation, source_bytes
from evaluator.pipeline.progress import Progress, ProgressCallback, unheard
from evaluator.pipeline.receipt import plan_sha256
from evaluator.pipeline.referee import JudgeRequest, JudgeResult, Referee, Target
from evaluator.pipeline.sim_referee import also_rehearsed, rehearse
from evaluator.pipeline.stage_values import Ending, JudgedProgram, PlannedProgram, TimedProgram
from evaluator.pipeline.timing import timed
from evaluator.pipeline.toolbox import Toolbox
from evaluator.pipeline.verdict import build_verdict
from evaluator.pipeline.without_result import verdict_without_result
from evaluator.problems.catalogue import find_problem
from evaluator.problems.problem import Problem
from evaluator.seed import Seed
from evaluator.stages.compile.line_table import with_lines
from evaluator.stages.lift.dialects import launch_line
from evaluator.stages.time.sample_pool import TimingKey
from evaluator.stages.time.statistics import Measurement, Pooled
from evaluator.stages.verify.findings.undefined_memory import with_its_name
from evaluator.stages.verify.shrinking import shrink
from evaluator.stages.verify.trials import asked_sizes

Outcome = TypeVar("Outcome")


def evaluate(
    submission: Submission,
    toolbox: Toolbox,
    raw: bytes | None = None,
    progress: ProgressCallback = unheard,
    preparation: Preparation = UNPREPARED,
    seed: Seed | None = None,
    problem: Problem | None = None,
) -> Verdict:
    """Grade one submission.

    `raw` is the source's own bytes where the caller has a file (else `submission.source` counts), so that what is not
    text is a verdict too. `preparation`: what `prepare` said of the same submission, where it went before.
    `seed`: that of an evaluation to repeat, which a caller of the service never chooses: it could be an easy one.
    `problem`: the submission's, where the caller has looked it up.

    Raises UsageError for a problem, backend or size that does not exist; whatever is wrong with the submission is a
    verdict, and so are our own failures (`internal_error`, without a reward) and a cancelled token
    (`cancelled`).
    """
    problem = problem or find_problem(submission.problem)
    if submission.settings.sizes is not None:
        asked_sizes(problem, submission.settings.sizes)  # before any work
    try:
        referee = toolbox.referee(submission)
    except InfrastructureError as fault:
        return verdict_without_result(problem.id, submission.backend, fault.ruling())
    job = GradingJob(
        submission,
        problem,
        toolbox,
        target=referee,
        raw=raw if raw is not None else source_bytes(submission),
        preparation=preparation,
        seed=seed or Seed.fresh(),
        replayed=seed is not None,
    )
    return _ended(job, progress, lambda told: build_verdict(job, _grade(job, referee, told)))


def prepare(
    submission: Submission, problem: Problem, toolbox: Toolbox, target: Target, progress: ProgressCallback = unheard
) -> Preparation | Verdict:
    """Screen, compile and plan one submission that is to be judged at `target`; its program is then in the cache.

    A verdict where that half ended the evaluation.
    """
    job = GradingJob(submission, problem, toolbox, target, source_bytes(submission))

    def first_half(told: ProgressCallback) -> Preparation | Verdict:
        built = unrecorded(job) or build(job.submitted, toolbox, told)
        if isinstance(built, Ending):
            # What the host tier takes has no more to be prepared.
            taken = could_take(job, target.name, built)
            return Preparation(None, time.monotonic() - job.started_s) if taken else build_verdict(job, built)
        compiled_s = None if built.compiled.cached else built.compiled.duration_s
        return Preparation(compiled_s, time.monotonic() - job.started_s)

    return _ended(job, progress, first_half)


def _grade(job: GradingJob, referee: Referee, progress: ProgressCallback) -> Ending:
    """The whole line, or the host tier where that is asked for or alone can judge the submission."""
    if (first := unrecorded(job)) is not None:
        return in_host_tier(job, referee, first, progress)
    return in_host_tier(job, referee, _recorded(job, referee, progress), progress)


def _recorded(job: GradingJob, referee: Referee, progress: ProgressCallback) -> Ending:
    """The line of the device tier; each step gives the value of its stage, or the end."""
    timed_too = _timed_too(job, referee)
    planned = build(
        job.submitted, job.toolbox, progress, lambda: known_points(job.submitted, job.seed.secret, timed_too)
    )
    if isinstance(planned, Ending):
        return planned
    judged = _judge(job, _compiled_before(planned, job.preparation), referee, progress)
    if isinstance(judged, Ending):
        return judged
    return _time(job, judged, progress)


def _timed_too(job: GradingJob, referee: Referee) -> bool:
    return referee.name == "gpu" and job.submission.settings.timing


def _compiled_before(planned: PlannedProgram, preparation: Preparation) -> PlannedProgram:
    """What came from the cache only because another worker had just compiled it for this very evaluation."""
    if preparation.compiled_s is None:
        return planned
    compiled = replace(planned.compiled, cached=False, duration_s=preparation.compiled_s)
    return replace(planned, compiled_source=replace(planned.compiled_source, compiled=compiled))


def _judge(
    job: GradingJob, planned: PlannedProgram, referee: Referee, progress: ProgressCallback
) -> JudgedProgram | Ending:
    progress(Progress(Phase.VERIFY))
    settings = job.submission.settings
    ahead = record_ahead(planned, job.toolbox, job.seed.secret, _timed_too(job, referee))
    if isinstance(ahead, Ending):
        return ahead
    planned = ahead
    request = JudgeRequest(
        program=planned.program,
        checked_plan=planned.checked_plan,
        settings=settings,
        local_memory=any(k.stack_bytes or k.spill_store_bytes for k in planned.compiled.kernels),
        secret=job.seed.secret,
    )
    try:
        result = _verified(job, planned, request, referee, progress)
    except UnsupportedError as missing:
        return Ending(planned, _unsupported(referee.name, missing))
    if result.verified.ruling and settings.shrink_s:
        progress(Progress(Phase.VERIFY, "smaller"))
        seed = int(job.seed.generator().integers(1, 1 << 53))
        simulator, checked_plan = job.toolbox.simulator, planned.checked_plan
        smaller = shrink(checked_plan, planned.program, simulator, settings, result.verified, seed)
        result = replace(result, verified=smaller)
    ruling, shown = result.verified.ruling, result.verified.correctness
    if ruling is not None and shown is not None:
        named = with_its_name(ruling, shown.fault, planned.compiled_source.screened.source)
        result = replace(result, verified=replace(result.verified, ruling=named))
    judged = JudgedProgram(planned, result)
    return Ending(judged, result.verified.ruling) if result.verified.ruling or result.look is None else judged


def _verified(
    job: GradingJob, planned: PlannedProgram, request: JudgeRequest, referee: Referee, progress: ProgressCallback
) -> JudgeResult:
    """What the referee found, after a rehearsal where there is one. Raises UnsupportedError."""
    toolbox, compiled = job.toolbox, planned.compiled
    rehearsed = rehearse(toolbox.rehearsal(referee), request)
    job.stopwatch.lap("rehearsal")
    if isinstance(rehearsed, UnsupportedError):
        lined = b""
        if request.settings.sanitize:
            lined = with_lines(planned.program, compiled.flags, toolbox.toolchain, toolbox.sandbox)
        rehearsed, request = None, replace(request, unrehearsed=True, lined_cubin=lined)
    if rehearsed and rehearsed.verified.ruling:
        return rehearsed
    judged = also_rehearsed(referee.judge(request, progress), rehearsed)
    warnings = *job.problem.caveats, *not_applied(request.settings, planned.compiled_source.screened.dialect)
    warnings += _host_code_left_out(planned)
    judged = replace(judged, verified=judged.verified.warned(warnings))
    return replace(judged, evidence=judged.evidence or rehearsed.evidence) if rehearsed else judged


def _host_code_left_out(planned: PlannedProgram) -> tuple[str, ...]:
    """What to say of host code that launches, where a plan was inferred in its place."""
    if planned.checked_plan.plan_source != "inferred":
        return ()
    line = launch_line(planned.compiled_source.screened.source)
    if line is None:
        return ()
    return (
        f"the host code of this file was not called, and its launch in line {line} was not used: the plan was "
        "inferred from the kernel (host code is called where it is a function `solve` or `solution`)",
    )


def _time(job: GradingJob, judged: JudgedProgram, progress: ProgressCallback) -> Ending:
    progress(Progress(Phase.TIME))
    found = timed(judged.planned.checked_plan, judged.result, lambda one: _remembered(job, judged.planned, one))
    judged = replace(judged, result=replace(judged.result, verified=found.verified))
    return Ending(judged if found.timing is None else TimedProgram(judged, found.timing), found.ruling)


def _remembered(job: GradingJob, planned: PlannedProgram, measurement: Measurement) -> Pooled:
    """The samples of all evaluations of this program and plan, these ones among them; in a repeat these alone."""
    if job.replayed:
        return Pooled(measurement.event_us, measurement.baseline_us)
    key = TimingKey(
        canonical_ptx_sha256=planned.compiled.canonical_ptx_sha256 or "",
        plan_sha256=plan_sha256(planned.checked_plan.plan_at(measurement.sizes)),
        problem=job.problem.id,
        problem_version=job.problem.version,
        sizes=measurement.sizes,
        device_uuid=measurement.device.uuid or "",
        driver=measurement.device.driver or "",
        compared_with=measurement.compared_with,
    )
    pooled = job.toolbox.timings.add(key, job.seed.commitment, measurement)
    # What was timed by itself once is the same for many evaluations, and no more samples for each of them.
    return replace(pooled, baseline_us=measurement.baseline_us) if measurement.baselines else pooled


def _ended(
    job: GradingJob, progress: ProgressCallback, work: Callable[[ProgressCallback], Outcome]
) -> Outcome | Verdict:
    """What `work(told)` gives; whatever else ends it is a verdict too, but for the caller's own mistakes."""
    phase = Phase.SCREEN

    def told(event: Progress) -> None:
        nonlocal phase
        before, phase = phase, event.phase
        if phase is not before:
            job.stopwatch.lap(before)
        progress(event)

    cancel_token = job.toolbox.cancel_token
    try:
        outcome = work(told)
        cancel_token.check()
        return outcome
    except UsageError:
        raise
    except Exception as error:
        if cancel_token.cancelled:  # what was ended in the middle fails in its own way
            return build_verdict(job, Ending(job.submitted, _cancelled(phase)))
        job.toolbox.note(error)
        if isinstance(error, InfrastructureError):
            return build_verdict(job, Ending(job.submitted, error.ruling(phase)))
        return verdict_without_result(job.problem.id, job.target.name, InternalError(error).ruling())


def _cancelled(phase: Phase) -> Ruling:
    return Ruling(
        Status.CANCELLED,
        phase,
        "The request was cancelled, so the work on it was stopped.",
        "Send the submission again to have it graded.",
    )


def _unsupported(backend: str, missing: UnsupportedError) -> Ruling:
    line = f" (line {missing.line})" if missing.line else ""
    who, where = ("The simulator", "on a GPU (--backend gpu)") if backend == "sim" else ("This GPU", "on another GPU")
    return Ruling(
        Status.UNSUPPORTED,
        Phase.LAUNCH,
        f"{who} cannot run {missing.feature}{line}.",
        f"{missing.remedy or f'Grade this kernel {where}, or write it without that.'} "
        "It was not judged, so there is no reward.",
    )
