"""The store: the one truth about every evaluation, on SQLite or PostgreSQL."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence

from common.contract import Status, Submission, Verdict
from evaluator.service.keys import Key, Quota
from evaluator.service.records import (
    Accepted,
    IdempotencyClash,
    Lease,
    Page,
    QueueFull,
    QuotaExceeded,
    State,
    StoredEvaluation,
    Swept,
    Tally,
    Waiting,
    WorkerFacts,
)

__all__ = [
    "Accepted",
    "IdempotencyClash",
    "Lease",
    "Page",
    "QueueFull",
    "QuotaExceeded",
    "Store",
    "StoredEvaluation",
    "Swept",
    "Tally",
    "Waiting",
    "WorkerFacts",
]


class Store:
    """All methods raise StorageFault where the database cannot be used; all may be called from any thread."""

    def __init__(
        self,
        url: str,
        clock: Callable[[], float] = time.time,
        steady_clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`url`: `sqlite:////path/assay.db` or `postgresql+psycopg://…`. Connects to nothing yet."""
        raise NotImplementedError

    def upgrade(self) -> None:
        """Bring the tables up to date (Alembic). Many processes may do so at once."""
        raise NotImplementedError

    def ping(self) -> None:
        """Raises StorageFault unless the database answers."""
        raise NotImplementedError

    def close(self) -> None:
        """Give the connections back."""
        raise NotImplementedError

    def accept(
        self,
        submission: Submission,
        tenant: str,
        *,
        queue: str,
        most_queued: int,
        reuse_key: str | None = None,
        idempotency_key: str | None = None,
        fresh: bool = False,
        request_id: str = "",
        quota: Quota | None = None,
    ) -> Accepted:
        """Take a submission in; it is accepted when this returns. Raises QueueFull, QuotaExceeded, IdempotencyClash."""
        raise NotImplementedError

    def claim(self, queues: Sequence[str], worker: str, lease_s: float) -> Lease | None:
        """The next evaluation of `queues`, fair between tenants and oldest first for each; None when none waits."""
        raise NotImplementedError

    def claim_one(self, evaluation_id: str, queues: Sequence[str], worker: str, lease_s: float) -> Lease | None:
        """This evaluation, if it waits in one of `queues`; None otherwise."""
        raise NotImplementedError

    def renew(self, lease: Lease, lease_s: float) -> bool:
        """Say that the work goes on. False: the lease is lost or nobody wants the verdict: stop working."""
        raise NotImplementedError

    def progress(self, lease: Lease, text: str) -> bool:
        """Say what is being done. False where the lease is lost."""
        raise NotImplementedError

    def pass_on(self, lease: Lease, queue: str, compiled_s: float | None) -> bool:
        """The compile stage is done: wait for the judge stage in `queue`. False: lost or no longer wanted."""
        raise NotImplementedError

    def finish(
        self, lease: Lease, verdict: Verdict, phases_s: Mapping[str, float], sandbox_start_s: Sequence[float] = ()
    ) -> bool:
        """Store the verdict, once and for all. False where the lease is lost: nothing changed."""
        raise NotImplementedError

    def give_back(self, lease: Lease, *, counted: bool = False) -> bool:
        """Let another worker have it. The attempt is not counted unless `counted`. False where the lease is lost."""
        raise NotImplementedError

    def drop(self, evaluation_id: str, tenant: str | None) -> StoredEvaluation | None:
        """The caller lost interest: ends a waiting one at once, asks a running one to end. None: no such evaluation."""
        raise NotImplementedError

    def get(self, evaluation_id: str, tenant: str | None) -> StoredEvaluation | None:
        """One evaluation; None where `tenant` has none of this id. `tenant` None sees those of all."""
        raise NotImplementedError

    def list(
        self,
        tenant: str | None,
        *,
        state: State | None = None,
        status: Status | None = None,
        problem: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page:
        """Evaluations, newest first. Raises UsageError for a cursor that is none."""
        raise NotImplementedError

    def watch(self, ids: Collection[str]) -> dict[str, tuple[int, State]]:
        """(version, state) of each id that exists."""
        raise NotImplementedError

    def sweep(self) -> Swept:
        """End lost leases. To be called every second or so, always on the same Store: it remembers what it saw."""
        raise NotImplementedError

    def announced(self, ids: Collection[str]) -> None:
        """These were announced to the workers just now."""
        raise NotImplementedError

    def retain(self, older_than_s: float) -> int:
        """Delete evaluations that ended longer ago than this; says how many."""
        raise NotImplementedError

    def register(self, worker: WorkerFacts) -> None:
        """A worker is there (or there again, with other facts)."""
        raise NotImplementedError

    def seen(self, worker_id: str, busy_with: str | None, *, draining: bool = False) -> bool:
        """A worker lives. False where it is not registered (any more): register again."""
        raise NotImplementedError

    def gone(self, worker_id: str) -> None:
        """A worker has ended."""
        raise NotImplementedError

    def fleet(self, alive_within_s: float) -> tuple[WorkerFacts, ...]:
        """The workers that live: seen within this many seconds."""
        raise NotImplementedError

    def depth(self) -> dict[str, Waiting]:
        """How many wait in each queue, and for how long the oldest has."""
        raise NotImplementedError

    def tallies(self) -> tuple[Tally, ...]:
        """Counters and histograms of all that ever happened, for Prometheus."""
        raise NotImplementedError

    def create_key(
        self,
        name: str,
        *,
        expires_at: float | None = None,
        per_minute: int | None = None,
        concurrent: int | None = None,
        admin: bool = False,
    ) -> tuple[Key, str]:
        """A new key and its secret, which is shown now and never again."""
        raise NotImplementedError

    def find_key(self, secret: str) -> Key | None:
        """The key of this secret; None where there is none, or it has expired or was revoked."""
        raise NotImplementedError

    def list_keys(self) -> tuple[Key, ...]:
        """All keys, oldest first, dead ones included."""
        raise NotImplementedError

    def revoke_key(self, key_id: str) -> bool:
        """End a key. False where there is none of this id."""
        raise NotImplementedError
