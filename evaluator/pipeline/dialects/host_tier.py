"""The host tier, as one way through the pipeline: host code that cannot be recorded, where it may run."""

from dataclasses import replace
from typing import Final

from common.contract import Dialect, Phase, Settings, Status
from evaluator.backends.session import UnsupportedError
from evaluator.errors import Ruling
from evaluator.pipeline.grading_job import GradingJob
from evaluator.pipeline.progress import Progress, ProgressCallback
from evaluator.pipeline.referee import HostForm, HostRequest, Referee
from evaluator.pipeline.stage_values import Ending, JudgedHostCode, ScreenedSource
from evaluator.stages.host.permission import why_not_here
from evaluator.stages.lift.dialects import dialect_of, is_triton
from evaluator.stages.screen.cleaning import clean
from evaluator.stages.screen.python_text import screen_python
from evaluator.stages.screen.screening import LIFTED, screen

_FORMS: Final[dict[Dialect, HostForm]] = {
    "kernelbench": "kernelbench",
    "triton": "triton",
    "torch-extension": "torch-extension",
}
_ASKED: Final = "the submission asks for it"


def unrecorded(job: GradingJob) -> Ending | None:
    """A submission whose host code is not to be recorded at all, screened; None for every other one."""
    submission = job.submission
    if submission.settings.host_tier != "always" or submission.plan is not None:
        return None
    text = job.raw.decode(errors="replace")
    dialect = submission.dialect or ("triton" if is_triton(text) else dialect_of(text))
    if dialect not in _FORMS:
        return None
    cleaned = clean(job.raw, python=dialect != "torch-extension")
    if cleaned.ruling:
        return Ending(job.submitted, cleaned.ruling)
    if dialect == "torch-extension":
        found = screen(cleaned.source, cleaned.changes, LIFTED)
        screened = ScreenedSource(job.submitted, cleaned.source, found.screening, dialect)
        return Ending(screened, found.ruling or _not_recorded(job))
    screening = screen_python(cleaned.source, cleaned.changes)
    return Ending(ScreenedSource(job.submitted, cleaned.source, screening, dialect), _not_recorded(job))


def could_take(job: GradingJob, backend: str, ending: Ending) -> bool:
    """Whether the host tier may judge what ended so; whether it may run is for the machine with the GPU to say."""
    return _source_of(ending) is not None and job.submission.settings.host_tier != "off" and backend == "gpu"


def not_permitted(job: GradingJob, backend: str) -> str | None:
    """Why host code may not run, in words; None where it may. Raises SandboxError, StorageError."""
    settings, toolbox = job.submission.settings, job.toolbox
    if settings.host_tier == "off":
        return "the submission does not ask for it"
    return why_not_here(settings, toolbox.settings.host_tier, backend, toolbox.sandbox.promises)


def in_host_tier(job: GradingJob, referee: Referee, ending: Ending, progress: ProgressCallback) -> Ending:
    """What the host tier finds where host code could not be recorded and may run; else the same ending.

    Raises UsageError, InfrastructureError.
    """
    screened = _source_of(ending)
    if screened is None or ending.ruling is None or job.submission.settings.host_tier == "off":
        return ending
    if (reason := not_permitted(job, referee.name)) is not None:
        if reason in ending.ruling.message:
            return ending
        hint = f"{ending.ruling.hint or ''} The host tier would run it, but {reason}.".strip()
        return Ending(ending.reached, replace(ending.ruling, hint=hint))
    # Slow to import, and needed for host code alone.
    from evaluator.pipeline.dialects.extensions import built

    settings = job.submission.settings
    progress(Progress(Phase.COMPILE))
    made = built(job, screened.source, screened.dialect)
    if isinstance(made, Ruling):
        return Ending(ending.reached, made)
    job.stopwatch.lap("extensions")
    progress(Progress(Phase.VERIFY))
    request = HostRequest(
        job.problem,
        _FORMS[screened.dialect],
        screened.source,
        job.submitted.arch,
        settings,
        job.seed.secret,
        *made,
    )
    try:
        result = referee.judge_host(request, progress)
    except UnsupportedError:
        return ending
    job.stopwatch.lap("host")
    caveats = replace(result, verified=result.verified.warned(job.problem.caveats))
    return Ending(JudgedHostCode(screened, caveats, ending.ruling.message), caveats.ruling)


def _source_of(ending: Ending) -> ScreenedSource | None:
    """The source of what could not be recorded, in a dialect whose host code can run; None for every other ending."""
    ruling, at = ending.ruling, ending.reached
    if ruling is None or ruling.status is not Status.UNSUPPORTED or ruling.phase is not Phase.LIFT:
        return None
    while not isinstance(at, ScreenedSource):
        for name in ("judged", "planned", "compiled_source", "screened"):
            if hasattr(at, name):
                at = getattr(at, name)
                break
        else:
            return None
    return at if at.dialect in _FORMS else None


def _not_recorded(job: GradingJob) -> Ruling:
    """The submission asks for the host tier; where its host code may not run, nothing else is tried."""
    reason = not_permitted(job, job.target.name)
    if reason is None:
        return Ruling(Status.UNSUPPORTED, Phase.LIFT, _ASKED)
    return Ruling(
        Status.UNSUPPORTED,
        Phase.LIFT,
        f"The host code is to run in any case (settings.host_tier is always), but {reason}.",
        "With `allowed` or `off` it is recorded, where it can be. It was not judged, so there is no reward.",
    )


def not_applied(settings: Settings, dialect: Dialect) -> tuple[str, ...]:
    """Which conditions on host code say nothing of a submission that was judged without running any, in words."""
    said: list[str] = []
    if settings.host_tier == "always":
        why = "it has no host code" if dialect == "cuda" else f"that of the dialect {dialect} is recorded"
        said.append(f"settings.host_tier ({settings.host_tier}) does not apply: no host code ran, because {why}")
    if settings.min_coverage is not None:
        said.append(
            f"settings.min_coverage ({settings.min_coverage:g}) does not apply and was not measured: no host code "
            "ran, so no library could be called, and all kernels were the submission's own"
        )
    return tuple(said)
