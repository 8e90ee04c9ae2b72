"""The straight line: one submission in, one verdict out.

screen -> compile -> launch -> verify -> time -> profile -> verdict

The first half of it needs no device and can be done elsewhere, ahead: `prepare`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from common.contract import Phase, Status, Submission, Verdict
from evaluator.backends.session import UnsupportedError
from evaluator.errors import InfrastructureError, InternalError, Ruling, UsageError
from evaluator.pipeline.referee import JudgeRequest, Referee, Target, also_rehearsed, rehearse, timed
from evaluator.pipeline.toolbox import Toolbox
from evaluator.pipeline.verdict import Case, nothing_was_tried
from evaluator.problems.catalogue import find_problem
from evaluator.seed import Seed
from evaluator.stages.compile.line_table import with_lines
from evaluator.stages.compile.nvcc import Compiled, compile_source
from evaluator.stages.launch.planning import plan_launches
from evaluator.stages.screen.cleaning import clean
from evaluator.stages.screen.screening import screen
from evaluator.stages.verify.shrinking import shrink
from evaluator.stages.verify.verification import Verified

Progress = Callable[[str], None]
Outcome = TypeVar("Outcome")


@dataclass(frozen=True)
class Prepared:
    """What the half before the device gave."""

    verdict: Verdict | None
    """Where that half ended the evaluation; None where the program is in the cache and can be judged."""
    compiled_s: float | None = None
    """How long compiling took, seconds; None where nothing had to be compiled."""
    worked_s: float = 0.0
    """How long that half took, seconds."""


def evaluate(
    submission: Submission,
    toolbox: Toolbox,
    raw: bytes | None = None,
    progress: Progress = lambda text: None,
    compiled_s: float | None = None,
    worked_s: float = 0.0,
    seed: Seed | None = None,
) -> Verdict:
    """Grade one submission.

    `raw` is the source's own bytes where the caller has a file (else `submission.source` counts), so that what is not
    text is a verdict too. `compiled_s`, `worked_s`: what `prepare` said of the same submission, where it went before.
    `seed`: that of an evaluation to repeat, which a caller of the service never chooses: it could be an easy one.

    Raises UsageError for a problem, backend or size that does not exist; whatever is wrong with the submission is a
    verdict, and so are our own failures (`internal_error`, without a reward) and a cancelled token
    (`cancelled`).
    """
    problem = find_problem(submission.problem)
    try:
        referee = toolbox.referee(submission)
    except InfrastructureError as fault:
        return nothing_was_tried(problem, submission.backend, fault)
    case = replace(_case(submission, toolbox, referee, raw), worked_s=worked_s)
    if seed is not None:
        case = replace(case, seed=seed, replayed=True)
    return _ended(case, progress, lambda note: _grade(case, referee, note, compiled_s))


def prepare(
    submission: Submission, toolbox: Toolbox, venue: Target, progress: Progress = lambda text: None
) -> Prepared:
    """Screen, compile and plan one submission that is to be judged at `venue`; its program is then in the cache.

    Raises UsageError for a problem that does not exist.
    """
    case = _case(submission, toolbox, venue)
    compiled_s: float | None = None

    def first_half(note: Progress) -> Verdict | None:
        nonlocal compiled_s
        prepared, verdict = _prepare(case, note)
        if prepared.compiled and not prepared.compiled.cached:
            compiled_s = prepared.compiled.duration_s
        return verdict

    verdict = _ended(case, progress, first_half)
    return Prepared(verdict, compiled_s, time.monotonic() - case.started_s)


def _case(submission: Submission, toolbox: Toolbox, venue: Target, raw: bytes | None = None) -> Case:
    content = raw if raw is not None else submission.source.encode(errors="surrogatepass")
    return Case(submission, find_problem(submission.problem), toolbox, venue, content)


def _ended(case: Case, progress: Progress, work: Callable[[Progress], Outcome]) -> Outcome | Verdict:
    """What `work(note)` gives; whatever else ends it is a verdict too, but for the caller's own mistakes."""
    phase = Phase.SCREEN

    def note(text: str) -> None:
        nonlocal phase
        before, phase = phase, Phase(text.split()[0])
        if phase is not before:
            case.clock.lap(before)
        progress(text)

    cancel_token = case.toolbox.cancel_token
    try:
        outcome = work(note)
        cancel_token.check()
        return outcome
    except UsageError:
        raise
    except Exception as error:
        if cancel_token.cancelled:  # what was ended in the middle fails in its own way
            return case.verdict(_cancelled(phase))
        if isinstance(error, InfrastructureError):
            return case.verdict(Ruling(Status.INTERNAL_ERROR, phase, str(error), error.remedy))
        return nothing_was_tried(case.problem, case.venue.name, InternalError(error))


def _prepare(case: Case, progress: Progress) -> tuple[Case, Verdict | None]:
    settings, toolbox = case.submission.settings, case.toolbox

    progress("screen")
    cleaned = clean(case.raw)
    if cleaned.ruling:
        return case, case.verdict(cleaned.ruling)
    screened = screen(cleaned.source, cleaned.changes)
    case = replace(case, source=cleaned.source, screening=screened.screening)
    if screened.ruling:
        return case, case.verdict(screened.ruling)

    progress("compile")
    arch = settings.arch or case.venue.arch
    compiled = compile_source(cleaned.source, settings, arch, toolbox.toolchain, toolbox.sandbox, toolbox.cache)
    case = replace(case, compiled=compiled)
    if compiled.ruling or compiled.program is None:
        return case, case.verdict(compiled.ruling)

    progress("launch")
    shared = _shared_bytes(compiled)
    planned = plan_launches(case.problem, compiled.program, case.submission.plan, cleaned.source, shared)
    case = replace(case, checked_plan=planned.checked_plan)
    return case, case.verdict(planned.ruling) if planned.ruling else None


def _grade(case: Case, referee: Referee, progress: Progress, compiled_s: float | None) -> Verdict:
    case, ended = _prepare(case, progress)
    if ended:
        return ended
    toolbox, compiled, checked_plan = case.toolbox, case.compiled, case.checked_plan
    assert compiled is not None
    assert compiled.program is not None
    assert checked_plan is not None
    if compiled_s is not None:
        case = replace(case, compiled=replace(compiled, cached=False, duration_s=compiled_s))

    progress("verify")
    order = JudgeRequest(
        problem=case.problem.id,
        program=compiled.program,
        plan=checked_plan.plan,
        plan_source=checked_plan.plan_source,
        source_lines=checked_plan.source_lines,
        binding=checked_plan.binding,
        static_shared_bytes=_shared_bytes(compiled),
        settings=case.submission.settings,
        local_memory=any(k.stack_bytes or k.spill_store_bytes for k in compiled.kernels),
        secret=case.seed.secret,
    )
    try:
        rehearsed = rehearse(toolbox.rehearsal(referee), order)
        case.clock.lap("rehearsal")
        if isinstance(rehearsed, UnsupportedError):
            lined = b""
            if order.settings.sanitize:
                lined = with_lines(compiled.program, compiled.flags, toolbox.toolchain, toolbox.sandbox)
            rehearsed, order = None, replace(order, unrehearsed=True, lined_cubin=lined)
        if rehearsed and rehearsed.verified.ruling:
            judged = rehearsed
        else:
            judged = also_rehearsed(referee.judge(order, progress), rehearsed)
    except UnsupportedError as missing:
        return case.verdict(_unsupported(referee.name, missing))
    evidence = judged.evidence or (rehearsed.evidence if rehearsed else None)
    case = replace(
        case,
        verified=judged.verified,
        counted=judged.counted,
        evidence=evidence,
        sampled=judged.sampled,
        referee_s=judged.phases_s,
    )
    if judged.verified.ruling and case.submission.settings.shrink_s:
        progress("verify smaller")
        case = replace(case, verified=_shrunk(case, judged.verified))
    if judged.verified.ruling or judged.look is None:
        return case.verdict(case.verified.ruling if case.verified else None)

    progress("time")
    found = timed(checked_plan, judged, lambda measurement: case.remembered(measurement, toolbox.timings))
    return replace(case, verified=found.verified, timing=found.timing).verdict(found.ruling)


def _shrunk(case: Case, verified: Verified) -> Verified:
    compiled, checked_plan, settings = case.compiled, case.checked_plan, case.submission.settings
    assert compiled is not None
    assert compiled.program is not None
    assert checked_plan is not None
    seed = int(case.seed.generator().integers(1, 1 << 53))
    return shrink(checked_plan, compiled.program, case.toolbox.simulator, settings, verified, seed)


def _shared_bytes(compiled: Compiled) -> dict[str, int]:
    return {kernel.kernel: kernel.shared_bytes for kernel in compiled.kernels}


def _cancelled(phase: Phase) -> Ruling:
    return Ruling(
        Status.CANCELLED,
        phase,
        "Nobody wanted this verdict any more, so the work on it was stopped.",
        "Send the submission again to have it graded.",
    )


def _unsupported(backend: str, missing: UnsupportedError) -> Ruling:
    line = f" (line {missing.line})" if missing.line else ""
    who, where = ("The simulator", "on a GPU (--backend gpu)") if backend == "sim" else ("This GPU", "on another GPU")
    return Ruling(
        Status.UNSUPPORTED,
        Phase.LAUNCH,
        f"{who} cannot run {missing.feature}{line}.",
        f"Grade this kernel {where}, or write it without that. It was not judged, so there is no reward.",
    )
