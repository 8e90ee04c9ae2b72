"""What the API's pages show: the documents that it takes and gives beside the contract's, with examples."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from common.contract import (
    Compilation,
    Diagnostic,
    Evaluation,
    Phase,
    Screening,
    Severity,
    Status,
    Submission,
    Verdict,
)
from common.facts import STATIC_MEASURES, facts_of
from common.reward import reward
from common.wire import MaxLength, Request, Wire
from evaluator.service.api.errors import Problem
from evaluator.service.storage.models import ListedEvaluation, iso_time, links_of

MAX_IN_A_BATCH: Final = 512


class Batch(Request):
    """Many submissions in one request."""

    submissions: Annotated[tuple[Submission, ...], MaxLength(MAX_IN_A_BATCH, minimum=1)]
    """Each is judged by itself; equal ones may be answered by one evaluation."""


class BatchLine(Wire):
    """What came of one submission of a batch: one line of the stream."""

    index: int = Field(ge=0)
    """Its place in the batch, from 0."""
    evaluation: Evaluation | None = None
    """Null, and left out of a line of a stream, where it was refused."""
    error: Problem | None = None
    """Why it was refused; null, and left out of a line of a stream, where it was not."""


class BatchAnswer(Wire):
    """What came of a batch that nobody waits for."""

    items: tuple[BatchLine, ...]
    """One for each submission, in their order."""


class Summary(Wire):
    """An evaluation in a list: without its source and its verdict's details."""

    id: str
    state: Literal["queued", "running", "done"]
    problem: str
    backend: Literal["auto", "gpu", "sim"]
    """The backend of the verdict; before there is one, the one asked for."""
    status: Status | None
    """How it ended; null before it did."""
    quick: bool
    """Whether it was verified quickly only."""
    speedup: float | None
    """Over the baseline, as the verdict's `timing.speedup`; null where nothing was timed."""
    estimated_speedup: float | None
    """As the verdict's `profile.estimated_speedup`: of the simulator, a model's."""
    reward: float | None
    """Null where there is none: before it ended, and for a fault of the grader's."""
    reward_maximum: float | None
    """What the reward could have been at most."""
    progress: str | None
    created_at: str
    """ISO 8601, UTC."""
    links: dict[str, str]


class Listing(Wire):
    """One page of evaluations, newest first."""

    items: tuple[Summary, ...]
    next_cursor: str | None
    """Give this as `cursor` for the next page; null on the last."""


class Version(Wire):
    """What runs here."""

    assay: str
    """Version of the grader."""
    contract: str
    """Version of the wire contract."""
    signing_keys: tuple[str, ...] | None = None
    """Public keys that the workers alive now sign verdicts with, as `assay verify --key` takes them; null while the
    database cannot tell."""


class Readiness(Wire):
    """Whether an evaluation that came now would be judged."""

    ready: bool
    reason: str | None = None
    """Why not; null when ready."""
    backends: dict[Literal["gpu", "sim"], str | None]
    """Why one that asks for this backend would not be judged; null where it would. A service is ready without a GPU,
    since most evaluations may run anywhere."""


class Liveness(Wire):
    """The process answers."""

    alive: Literal[True] = True


def summary(listed: ListedEvaluation) -> Summary:
    """One line of a list."""
    verdict = listed.verdict
    return Summary(
        id=listed.id,
        state=listed.state,
        problem=listed.problem,
        backend=verdict.backend if verdict else listed.backend,
        status=verdict.status if verdict else None,
        quick=verdict is not None and verdict.quick,
        speedup=verdict.speedup if verdict else None,
        estimated_speedup=verdict.estimated_speedup if verdict else None,
        reward=verdict.reward if verdict else None,
        reward_maximum=verdict.most_reward if verdict else None,
        progress=listed.progress,
        created_at=iso_time(listed.created_at),
        links=links_of(listed.id),
    )


_SOURCE = """__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""
_ADD = Submission(problem="vector_add", source=_SOURCE)
_LINKS = {"self": "/evaluations/ev_pJ2dq0Nf3mVt1yRkWz8sLA", "events": "/evaluations/ev_pJ2dq0Nf3mVt1yRkWz8sLA/events"}
_BROKEN = _ADD.model_copy(update={"source": _SOURCE.replace("b[i];", "b[i]")})


def _compile_error(submission: Submission) -> Verdict:
    """A verdict as the grader gives it, without a receipt."""
    diagnostic = Diagnostic(
        file="kernel.cu", line=4, column=34, severity=Severity.ERROR, code=None, text='expected a ";"'
    )
    compilation = Compilation(
        succeeded=False, screening=Screening(), toolchain="nvcc 13.0.88", arch="sm_90", diagnostics=(diagnostic,)
    )
    facts = facts_of(
        status=Status.COMPILE_ERROR,
        compilation=compilation,
        correctness=None,
        timing=None,
        profile=None,
        settings=submission.settings,
        measurable=STATIC_MEASURES,
    )
    return Verdict(
        status=Status.COMPILE_ERROR,
        phase=Phase.COMPILE,
        message='kernel.cu:4:34: error: expected a ";"',
        hint="Fix the first error first; those after it often follow from it.",
        backend="sim",
        problem=submission.problem,
        compile=compilation,
        correctness=None,
        timing=None,
        profile=None,
        reward=reward(submission.settings.reward, facts),
        receipt=None,
    )


_WAITING = Evaluation(
    id="ev_pJ2dq0Nf3mVt1yRkWz8sLA",
    state="queued",
    submission=_ADD,
    created_at="2026-01-31T12:00:00.000+00:00",
    links=_LINKS,
)
_DONE = _WAITING.model_copy(
    update={"state": "done", "submission": _BROKEN, "progress": "done", "verdict": _compile_error(_BROKEN)}
)
_JSON = {
    "waiting": _WAITING.model_dump(mode="json"),
    "done": _DONE.model_dump(mode="json"),
    "submission": _ADD.model_dump(mode="json", include={"problem", "source", "backend"}),
}

SUBMISSION_EXAMPLES: Final[dict[str, Any]] = {
    "plain": {"summary": "A kernel whose launch is inferred", "value": _JSON["submission"]},
    "directives": {
        "summary": "A kernel that says how it is launched",
        "value": {
            **_JSON["submission"],
            "source": "// assay: launch add grid=(ceil_div(n, 128)) block=(128) args=(a, b, c, n)\n" + _SOURCE,
            "backend": "sim",
        },
    },
}
BATCH_EXAMPLES: Final[dict[str, Any]] = {
    "two": {"summary": "Two submissions", "value": {"submissions": [_JSON["submission"], _JSON["submission"]]}}
}
DONE: Final[dict[str, Any]] = {"compile_error": {"summary": "A kernel that does not compile", "value": _JSON["done"]}}
WAITING: Final[dict[str, Any]] = {"queued": {"summary": "It waits for a worker", "value": _JSON["waiting"]}}
_LISTED = {
    "items": [
        {
            **{name: _JSON["done"][name] for name in ("id", "state", "progress", "created_at", "links")},
            "problem": "vector_add",
            "backend": "sim",
            "status": "compile_error",
            "quick": False,
            "speedup": None,
            "estimated_speedup": None,
            "reward": 0.0,
            "reward_maximum": 1.0,
        }
    ],
    "next_cursor": None,
}
LISTED: Final[dict[str, Any]] = {"page": {"summary": "The last page", "value": _LISTED}}
WHOLE: Final[dict[str, Any]] = {
    example["summary"]: example["value"] for examples in (DONE, WAITING, LISTED) for example in examples.values()
}
"""Examples by their summaries, with the nulls that the framework leaves out of its document."""
LINES: Final = "".join(
    line.model_dump_json(exclude_none=True) + "\n"
    for line in (BatchLine(index=1, evaluation=_DONE), BatchLine(index=0, evaluation=_WAITING))
)
EVENTS: Final = (
    'id: 2\nevent: progress\ndata: {"id":"ev_pJ2dq0Nf3mVt1yRkWz8sLA","state":"running","progress":"verify"}\n\n'
    ": heartbeat\n\n"
    f"id: 3\nevent: done\ndata: {_DONE.model_dump_json()}\n\n"
)


def ndjson(line: BatchLine) -> bytes:
    """One line of a batch's answer."""
    left_out = {"error"} if line.error is None else {"evaluation"}
    text: bytes = line.__pydantic_serializer__.to_json(line, exclude=left_out)
    return text + b"\n"
