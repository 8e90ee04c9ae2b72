"""The straight line: one submission in, one verdict out.

screen -> compile -> launch -> verify -> time -> profile -> verdict
"""

from collections.abc import Callable
from dataclasses import replace

from common.contract import Phase, Status, Submission, Verdict
from evaluator.backends.backend import Unsupported
from evaluator.case import Case, nothing_was_tried
from evaluator.errors import InfrastructureFault, OwnMistake, Ruling, UsageError
from evaluator.judging import Order, rehearse, timed
from evaluator.problems.catalogue import find
from evaluator.stages.cleaning import clean
from evaluator.stages.compilation import compile_source
from evaluator.stages.launching import plan_launches
from evaluator.stages.screening import screen
from evaluator.workshop import Workshop

Progress = Callable[[str], None]


def evaluate(
    submission: Submission,
    workshop: Workshop,
    raw: bytes | None = None,
    progress: Progress = lambda text: None,
) -> Verdict:
    """Grade one submission.

    `raw` is the source's own bytes where the caller has a file (else `submission.source` counts), so that what is not
    text is a verdict too. Raises UsageError for a problem, backend or size that does not exist; whatever is wrong
    with the submission is a verdict, and so are our own failures (`internal_error`, without a reward).
    """
    problem = find(submission.problem)
    try:
        referee = workshop.referee(submission)
    except InfrastructureFault as fault:
        return nothing_was_tried(problem, submission.backend, fault)
    content = raw if raw is not None else submission.source.encode(errors="surrogatepass")
    case = Case(submission, problem, workshop, referee, content)
    phase = Phase.SCREEN

    def note(text: str) -> None:
        nonlocal phase
        before, phase = phase, Phase(text.split()[0])
        if phase is not before:
            case.clock.lap(before)
        progress(text)

    try:
        return _grade(case, note)
    except InfrastructureFault as fault:
        return case.verdict(Ruling(Status.INTERNAL_ERROR, phase, str(fault), fault.remedy))
    except UsageError:
        raise
    except Exception as error:
        return nothing_was_tried(problem, referee.name, OwnMistake(error))


def _grade(case: "Case", progress: Progress) -> Verdict:
    settings, workshop = case.submission.settings, case.workshop

    progress("screen")
    cleaned = clean(case.raw)
    if cleaned.ruling:
        return case.verdict(cleaned.ruling)
    screened = screen(cleaned.source, cleaned.changes)
    case = replace(case, screening=screened.screening)
    if screened.ruling:
        return case.verdict(screened.ruling)

    progress("compile")
    arch = settings.arch or case.referee.arch
    compiled = compile_source(cleaned.source, settings, arch, workshop.toolchain, workshop.sandbox, workshop.cache)
    case = replace(case, compiled=compiled)
    if compiled.ruling or compiled.program is None:
        return case.verdict(compiled.ruling)

    progress("launch")
    shared = {kernel.kernel: kernel.shared_bytes for kernel in compiled.kernels}
    planned = plan_launches(case.problem, compiled.program, case.submission.plan, cleaned.source, shared)
    if planned.ruling or planned.launchable is None:
        return case.verdict(planned.ruling)
    case = replace(case, launchable=planned.launchable)

    progress("verify")
    order = Order(
        problem=case.problem.id,
        program=compiled.program,
        plan=planned.launchable.plan,
        plan_source=planned.launchable.plan_source,
        source_lines=planned.launchable.source_lines,
        binding=planned.launchable.binding,
        static_shared_bytes=shared,
        settings=settings,
        local_memory=any(k.stack_bytes or k.spill_store_bytes for k in compiled.kernels),
        secret=case.seed.secret,
    )
    try:
        rehearsed = rehearse(workshop.rehearsal(case.referee), order)
        case.clock.lap("rehearsal")
        judged = rehearsed if rehearsed and rehearsed.verified.ruling else case.referee.judge(order, progress)
    except Unsupported as missing:
        return case.verdict(_unsupported(case.referee.name, missing))
    case = replace(case, verified=judged.verified, referee_s=judged.phases_s)
    if judged.verified.ruling or judged.look is None:
        return case.verdict(judged.verified.ruling)

    progress("time")
    found = timed(planned.launchable, judged, lambda measurement: case.remembered(measurement, workshop.timings))
    return replace(case, verified=found.verified, timing=found.timing).verdict(found.ruling)


def _unsupported(backend: str, missing: Unsupported) -> Ruling:
    line = f" (line {missing.line})" if missing.line else ""
    who, where = ("The simulator", "on a GPU (--backend gpu)") if backend == "sim" else ("This GPU", "on another GPU")
    return Ruling(
        Status.UNSUPPORTED,
        Phase.LAUNCH,
        f"{who} cannot run {missing.feature}{line}.",
        f"Grade this kernel {where}, or write it without that. It was not judged, so there is no reward.",
    )
