"""What the repositories take and give: rows as frozen values, the names of queues, and the refusals of `accept_all`.

Times of day (`…_at`) are seconds since 1970, UTC; they are for people. No decision about a lease rests on them.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

from common.contract import Evaluation, ProblemFace, Status, Submission, Verdict
from evaluator.errors import AssayError, UnknownProblemError, UsageError
from evaluator.service.storage.secrets import Quota

State = Literal["queued", "running", "done"]
Stage = Literal["compile", "judge"]

FIRST_QUEUE: Final = "compile"
"""Where every submission waits first."""
ALIVE_WITHIN_S: Final = 30.0
"""A worker that has not been seen for so long counts as gone: for routing, for /readyz, in the metrics and on the
pages. It says every 5 s that it lives, so it may miss five times, as on a machine that is busy or while the database
is away, before anybody stops counting on it."""
_QUEUE: Final = re.compile(r"compile|sim|gpu|gpu\.[\w-]{1,100}")


def is_queue(name: str) -> bool:
    """Whether there can be a queue of this name."""
    return _QUEUE.fullmatch(name) is not None


def is_gpu_queue(queue: str) -> bool:
    """Whether what waits in a queue is for a GPU: for any (`gpu`) or for one (`gpu.UUID`)."""
    return queue.partition(".")[0] == "gpu"


def backend_of(queue: str) -> Literal["gpu", "sim"]:
    """What judges whatever waits in a queue of the judge stage."""
    return "gpu" if is_gpu_queue(queue) else "sim"


def links_of(evaluation_id: str) -> dict[str, str]:
    """Where an evaluation can be asked for: paths of the service."""
    here = f"/evaluations/{evaluation_id}"
    return {"self": here, "events": here + "/events"}


def iso_time(at: float) -> str:
    """A time of day as the wire has it: ISO 8601, UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class StoredEvaluation:
    """One evaluation as the store holds it."""

    id: str
    tenant: str
    state: State
    submission: Submission
    created_at: float
    started_at: float | None
    """When a worker first took it."""
    finished_at: float | None
    progress: str | None
    """What is being done, in words."""
    verdict: Verdict | None
    """There exactly when `state` is `done`."""
    stage: Stage
    queue: str
    """Where it waits or runs: `compile`, `sim`, `gpu` or `gpu.<uuid>`."""
    attempt: int
    """Attempts begun in this stage; those handed back unharmed, and those lost in company, are not counted."""
    worker: str | None
    """Id of the worker that has it, or had it last."""
    wanted: bool
    """False once the caller has dropped it."""
    version: int
    """Grows with every change that a caller can see."""
    request_id: str = ""
    """Id of the request that created it, for the logs."""
    losses: int = 0
    """How often its worker vanished, or someone outside ended its processes, in this stage."""

    def without_source(self) -> "StoredEvaluation":
        """The same with an empty source, which alone may take 80 MiB."""
        return replace(self, submission=self.submission.model_copy(update={"source": ""}))

    def evaluation(self) -> Evaluation:
        """The wire form."""
        return Evaluation(
            id=self.id,
            state=self.state,
            submission=self.submission,
            created_at=iso_time(self.created_at),
            progress=self.progress,
            verdict=self.verdict,
            links=links_of(self.id),
        )


@dataclass(frozen=True)
class ListedVerdict:
    """What a list shows of a verdict."""

    status: Status
    backend: Literal["gpu", "sim"]
    quick: bool = False
    """Whether it was verified quickly only."""
    speedup: float | None = None
    estimated_speedup: float | None = None
    reward: float | None = None
    most_reward: float | None = None
    """What the reward could have been at most."""

    @staticmethod
    def of(verdict: Verdict) -> "ListedVerdict":
        """The outcome of a whole verdict."""
        correctness, earned = verdict.correctness, verdict.reward
        return ListedVerdict(
            verdict.status,
            verdict.backend,
            correctness is not None and correctness.verification == "quick",
            verdict.timing.speedup if verdict.timing else None,
            verdict.profile.estimated_speedup if verdict.profile else None,
            earned.value if earned else None,
            earned.maximum if earned else None,
        )


@dataclass(frozen=True)
class ListedEvaluation:
    """One evaluation in a list, without its texts: the source, the plan and the verdict may be large."""

    id: str
    tenant: str
    state: State
    problem: str
    backend: Literal["auto", "gpu", "sim"]
    """The one asked for."""
    created_at: float
    started_at: float | None
    finished_at: float | None
    progress: str | None
    stage: Stage
    queue: str
    attempt: int
    wanted: bool
    version: int
    verdict: ListedVerdict | None
    """There exactly when `state` is `done`."""


@dataclass(frozen=True)
class ForeignText:
    """What stands for a problem that a caller states."""

    id: str
    name: str
    """The file's, for messages."""
    text: str
    """A file in the form that the sandbox runs."""


@dataclass(frozen=True)
class ForeignProblem:
    """What is known of a problem that a caller states; neither a face nor a refusal before a worker has read it."""

    id: str
    name: str
    face: ProblemFace | None
    refusal: str | None
    """Why it can be no problem, with file and line."""


@dataclass(frozen=True)
class Asked:
    """A submission that asks to be taken in; what each part does is at `SubmissionRepository.accept_all`."""

    submission: Submission
    tenant: str
    queue: str
    reuse_key: str | None = None
    idempotency_key: str | None = None
    fresh: bool = False
    request_id: str = ""
    quota: Quota | None = None
    foreign: ForeignText | None = None
    """What stands for its problem, where the caller sent that too."""
    most_foreign: int = 0
    """How many problems of its own the tenant may have kept."""
    verdict: Verdict | None = None
    """Where no worker is needed to rule on it; of its source is then kept what `kept_source` gives."""
    unserved: bool = False
    """Whether no worker is there that could ever take it."""
    refused_lately: int = 0
    """How much of the quota per minute went to requests that were refused."""


@dataclass(frozen=True)
class Accepted:
    """What `accept_all` answers to one that it takes in."""

    evaluation: StoredEvaluation
    how: Literal["created", "repeated", "reused"]
    """Repeated: its Idempotency-Key was used before. Reused: there is a verdict for the same submission."""

    @property
    def created(self) -> bool:
        """False where an Idempotency-Key or a verdict that exists answered it."""
        return self.how == "created"

    @property
    def waits(self) -> bool:
        """Whether it is new, and a worker has to judge it."""
        return self.created and self.evaluation.state == "queued"


@dataclass(frozen=True)
class Lease:
    """The right of one worker to work on one evaluation, until it is not renewed in time."""

    evaluation_id: str
    token: int
    """Fencing token: grows with every claim of the row. Writes with an old one change nothing."""
    attempt: int
    """1 for the first attempt in this stage."""
    worker: str
    submission: Submission
    stage: Stage
    queue: str
    compiled_s: float | None
    """Seconds that the compiler took in the compile stage; None while it has not, or where nothing had to be."""
    request_id: str
    worked_s: float = 0.0
    """Seconds of work in the compile stage, where that has ended; waiting for a worker is not among them."""
    tenant: str = ""
    version: int = -1
    """The row's version when it was claimed; -1 where nobody knows."""
    foreign: ForeignText | None = None
    """What stands for its problem, where that is one that a caller stated."""
    alone: bool = False
    """It was lost so often that nothing else may run beside it on its worker's host."""


@dataclass(frozen=True)
class Page:
    """One page of a list, newest first."""

    items: tuple[ListedEvaluation, ...]
    next_cursor: str | None
    """Give this to `list` for the next page; None on the last."""


@dataclass(frozen=True)
class Swept:
    """What one sweep did, and what is to be announced."""

    requeued: tuple[tuple[str, str], ...] = ()
    """(evaluation id, queue) of lost attempts that wait again: announce them."""
    dead: tuple[str, ...] = ()
    """Ids of those that were lost too often, even alone, and ended in `internal_error`."""
    cancelled: tuple[str, ...] = ()
    """Ids of lost attempts of cancelled evaluations: ended as `cancelled`."""
    rerouted: tuple[tuple[str, str], ...] = ()
    """(evaluation id, queue) of those that may run anywhere and waited for a GPU that nobody serves any more: they
    begin again, where others work. Announce them."""
    stale_announcements: tuple[tuple[str, str], ...] = ()
    """(evaluation id, queue) of those that wait although they were announced a while ago: announce them again."""


@dataclass(frozen=True)
class Waiting:
    """One queue's depth."""

    count: int
    oldest_age_s: float


@dataclass(frozen=True)
class WorkerFacts:
    """One worker of the fleet."""

    id: str
    host: str
    pid: int
    queues: tuple[str, ...]
    backend: Literal["gpu", "sim"]
    device: str
    arch: str
    toolchain: str
    sandbox: str
    grader_version: str
    started_at: float
    seen_at: float
    """When it last said that it lives."""
    draining: bool = False
    """True while it finishes what it has and takes nothing new."""
    jobs_done: int = 0
    """Evaluations that it finished."""
    busy_with: str | None = None
    """Id of the evaluation that it works on."""
    signing_key: str | None = None
    """The public key that its verdicts are signed with; null in rows of workers before they signed."""
    trouble: str | None = None
    """Why it cannot judge on its GPU now, in words; null while it can, and for a worker without one."""
    no_references: str | None = None
    """Why it can carry out no caller's reference, in words; null where it can."""
    preparing: str | None = None
    """What it has to do before it takes anything, in words; null once that is done."""

    @property
    def serves_gpu(self) -> bool:
        """Whether it takes from a GPU's queue."""
        return any(map(is_gpu_queue, self.queues))


def gpu_trouble(fleet: Iterable[WorkerFacts]) -> str | None:
    """Why no GPU of these workers can be used now; None while one can, and where none has a GPU."""
    on_gpu = [worker for worker in fleet if worker.serves_gpu]
    return on_gpu[0].trouble if on_gpu and all(worker.trouble for worker in on_gpu) else None


@dataclass(frozen=True)
class Tally:
    """One sample for the metrics: a counter, or a histogram's `…_bucket` (with `le`), `…_sum` or `…_count`."""

    name: str
    labels: dict[str, str]
    value: float


class QueueFullError(AssayError):
    """No room in the queue: the caller should come back after `retry_after_s`."""

    def __init__(self, waiting: int, retry_after_s: float) -> None:
        super().__init__(
            f"The queue is full: {waiting} evaluations are waiting.", f"Try again in {retry_after_s:.0f} s."
        )
        self.retry_after_s = retry_after_s


class QuotaExceededError(AssayError):
    """The tenant's own bound is reached: `which` says whether `per_minute` or `concurrent`."""

    def __init__(self, which: Literal["per_minute", "concurrent"], bound: int, retry_after_s: float) -> None:
        asked = "in one minute" if which == "per_minute" else "at once"
        super().__init__(
            f"This key may have {bound} evaluation{'s' * (bound != 1)} {asked}, and has reached that limit.",
            f"Try again in {retry_after_s:.0f} s, or ask the operator for a larger quota.",
        )
        self.which = which
        self.bound = bound
        self.retry_after_s = retry_after_s


class NoWorkerError(AssayError):
    """Nobody could take it, and others are there to say so."""

    def __init__(self) -> None:
        super().__init__(
            "This submission asks for a GPU, and no worker with one is alive.",
            'Ask for the backend "auto" or "sim", or try again when one has been started.',
        )
        self.retry_after_s = 30.0


class IdempotencyConflictError(UsageError):
    """The same Idempotency-Key came with another submission."""

    def __init__(self, evaluation_id: str) -> None:
        super().__init__(
            f"This Idempotency-Key was used for another submission, evaluation {evaluation_id}.",
            "Use a new key for each new submission; repeat a key only with the very same body.",
        )
        self.evaluation_id = evaluation_id


class TooManyProblemsError(AssayError):
    """A tenant has all the problems of its own that it may have, and evaluations wait for each."""

    def __init__(self, most: int) -> None:
        super().__init__(
            f"Evaluations for {most} problems of your own are under way, which is as many as are kept.",
            "Try again when some have ended, or ask the operator for room (ASSAY_MOST_REFERENCES).",
        )
        self.retry_after_s = 5.0


class LargeEvaluationError(AssayError):
    """An evaluation was not read, because it is larger than there was room for."""

    def __init__(self, chars: int) -> None:
        super().__init__(f"This evaluation has {chars} characters.")
        self.chars = chars


Refusal: TypeAlias = (
    QueueFullError
    | QuotaExceededError
    | NoWorkerError
    | IdempotencyConflictError
    | TooManyProblemsError
    | UnknownProblemError
)
Answer: TypeAlias = Accepted | Refusal
"""What comes of one that asked."""
