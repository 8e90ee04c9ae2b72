"""Leases: who works on what, and what becomes of work that is lost.

    queued ──claim──> running ──finish──> done
       ^                 │ pass_on, give_back, lost once
       └─────────────────┘ lost twice, or dropped: done

Every write of a worker carries its token and changes nothing unless the row still runs under it. Whether a lease is
lost is decided by watching: a sweeper remembers each lease's beat, and ends the lease when the beat has not moved for
the lease's length, by the sweeper's own steady clock. So no two clocks are ever compared, and neither a time of day
that jumps nor an hour without a database costs a worker its lease.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Double, Row, bindparam, func, insert, or_, select, update

from common.contract import Phase, Status, Submission, Verdict
from evaluator.errors import InternalError, Ruling
from evaluator.pipeline.without_result import verdict_without_result
from evaluator.service.storage import counters
from evaluator.service.storage.models import Lease, Swept
from evaluator.service.storage.tables import (
    evaluations,
    is_done,
    is_queued,
    is_running,
    submissions,
    tenants,
    verdicts,
    workers,
)

MAX_ATTEMPTS = 2
"""Attempts in one stage; when the last is lost, the evaluation ends in `internal_error`."""

STALE_S = 30.0
"""Age at which an announcement is repeated for the first time; later ones wait up to four times as long."""

_MAX_ANNOUNCED = 1000
_row = evaluations.c


@dataclass(frozen=True)
class _Watched:
    """What a sweeper knows of one running evaluation: its last beat, and for how long it has not moved."""

    beat: int
    still_s: float


# Statements of the way that every evaluation takes are built once: building costs more than running them.
_is_it = _row.seq == bindparam("of_seq")
_is_held = (_row.id == bindparam("of_id")) & (_row.token == bindparam("of_token")) & is_running
"""The row of a lease, while it runs under it."""
_HELD = select(*_row).where(_is_held).with_for_update()
_waits = is_queued & _row.queue.in_(bindparam("of_queues", expanding=True))
_ANY = select(_row.seq).where(_waits).limit(1)
_busy = select(_row.tenant, func.count().label("count")).where(is_running).group_by(_row.tenant).subquery()
_TURNS = (
    select(tenants.c.name)
    .outerjoin(_busy, _busy.c.tenant == tenants.c.name)
    .where(select(_row.seq).where(_waits, _row.tenant == tenants.c.name).exists())
    .order_by(func.coalesce(_busy.c.count, 0), tenants.c.turn, tenants.c.name)
)
"""Tenants that have something waiting, whose turn it is first."""
_of_tenant = select(_row.seq).where(_waits, _row.tenant == bindparam("of_tenant")).order_by(_row.seq).limit(1)
_OLDEST_FREE = _of_tenant.with_for_update(skip_locked=True)
_OLDEST = _of_tenant.with_for_update()
_BEGIN = (
    update(evaluations)
    .where(_is_it)
    .values(
        state="running",
        worker=bindparam("by"),
        lease_s=bindparam("for_s"),
        token=_row.token + 1,
        beat=_row.beat + 1,
        attempt=_row.attempt + 1,
        version=_row.version + 1,
        started_at=func.coalesce(_row.started_at, bindparam("now", type_=Double)),
    )
    .returning(*_row)
)
_TAKE_TURN = (
    update(tenants)
    .where(tenants.c.name == bindparam("of_tenant"))
    .values(turn=select(func.max(tenants.c.turn)).scalar_subquery() + 1)
)
_BODY = select(submissions.c.body).where(submissions.c.seq == bindparam("of_seq"))
_RENEW = update(evaluations).where(_is_held, _row.wanted).values(beat=_row.beat + 1, lease_s=bindparam("for_s"))
_PROGRESS = (
    update(evaluations)
    .where(_is_held)
    .values(progress=bindparam("text"), beat=_row.beat + 1, version=_row.version + 1)
)
_NEW_VERDICT = insert(verdicts)
_END = (
    update(evaluations)
    .where(_is_it)
    .values(
        state="done",
        status=bindparam("as"),
        finished_at=bindparam("now"),
        progress=None,
        version=_row.version + 1,
    )
)
_RUNNING = select(_row.seq, _row.beat, _row.lease_s).where(is_running)
_ONE_MORE = update(workers).where(workers.c.id == bindparam("by")).values(jobs_done=workers.c.jobs_done + 1)


class Leases(counters.CounterStore):
    """The part of the store that workers and sweepers use."""

    def __init__(
        self,
        url: str,
        clock: Callable[[], float] = time.time,
        steady_clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(url, clock, steady_clock)
        self._sweeping = threading.Lock()
        self._swept_at: float | None = None
        self._watched: dict[int, _Watched] = {}

    def claim(self, queues: Sequence[str], worker: str, lease_s: float) -> Lease | None:
        """The next evaluation of `queues`: of the tenant with the fewest running, of those the one whose turn was
        longest ago; each tenant's oldest first. None when none waits. Raises StorageError.

        `worker` is the claimer's id; the lease is lost when it is not renewed for `lease_s` seconds.
        """
        ours = {"of_queues": tuple(queues)}
        if self._is_sqlite:
            # Looking needs no turn to write; sixteen idle workers that look must not wait for each other.
            with self._reading() as connection:
                if connection.execute(_ANY, ours).first() is None:
                    return None
        with self._writing() as connection:
            turns = connection.execute(_TURNS, ours).scalars().all()
            # At first whatever nobody else holds; then, should all be held, whatever is let go.
            for oldest in (_OLDEST_FREE, _OLDEST):
                for tenant in turns:
                    seq = connection.execute(oldest, ours | {"of_tenant": tenant}).scalar()
                    if seq is not None:
                        return self._begin(connection, seq, worker, lease_s)
        return None

    def claim_one(self, evaluation_id: str, queues: Sequence[str], worker: str, lease_s: float) -> Lease | None:
        """The evaluation of this id, if it waits in one of `queues`; None otherwise. Raises StorageError."""
        query = select(_row.seq).where(_row.id == evaluation_id, is_queued, _row.queue.in_(queues))
        with self._writing() as connection:
            seq = connection.execute(query.with_for_update()).scalar()
            return None if seq is None else self._begin(connection, seq, worker, lease_s)

    def _begin(self, connection: Connection, seq: int, worker: str, lease_s: float) -> Lease:
        values = {"of_seq": seq, "by": worker, "for_s": lease_s, "now": self._clock()}
        row = connection.execute(_BEGIN, values).one()
        connection.execute(_TAKE_TURN, {"of_tenant": row.tenant})
        body = connection.execute(_BODY, {"of_seq": seq}).scalar_one()
        return Lease(
            evaluation_id=row.id,
            token=row.token,
            attempt=row.attempt,
            worker=worker,
            submission=Submission.model_validate_json(body),
            stage=row.stage,
            queue=row.queue,
            compiled_s=row.compiled_s,
            request_id=row.request_id,
            worked_s=row.worked_s or 0.0,
            tenant=row.tenant,
            version=row.version,
        )

    def renew(self, lease: Lease, lease_s: float) -> bool:
        """Say that the work goes on, for `lease_s` more seconds. False: the lease is lost, or nobody wants the
        verdict any more: stop working. Raises StorageError, which says nothing about the lease: try again soon.
        """
        with self._writing() as connection:
            return connection.execute(_RENEW, _name(lease) | {"for_s": lease_s}).rowcount == 1

    def progress(self, lease: Lease, text: str) -> bool:
        """Say what is being done; renews the lease too. False where the lease is lost. Raises StorageError."""
        with self._writing() as connection:
            return connection.execute(_PROGRESS, _name(lease) | {"text": text[:500]}).rowcount == 1

    def pass_on(self, lease: Lease, queue: str, compiled_s: float | None, worked_s: float = 0.0) -> bool:
        """The compile stage is done: wait for the judge stage in `queue`; attempts count from the start again.

        `compiled_s`, `worked_s`: what the compiler and the whole stage took, seconds; whoever judges gets to know.
        False where the lease is lost, or nobody wants the verdict (then it has ended as `cancelled`). Raises
        StorageError.
        """
        done = {"compiled_s": compiled_s, "worked_s": worked_s}
        return self._let_go(lease, None, stage="judge", queue=queue, attempt=0, **done)

    def give_back(self, lease: Lease, *, counted: bool = False) -> bool:
        """Let another worker have it, first in its tenant's line. A worker that ends gives back without counting the
        attempt; one that met a fault of ours and wants another try counts it.

        False where the lease is lost, or nobody wants the verdict (then it has ended as `cancelled`). Raises
        StorageError.
        """
        reason = "failed" if counted else "handed_back"
        return self._let_go(lease, reason, attempt=_row.attempt - (0 if counted else 1))

    def _let_go(self, lease: Lease, reason: str | None, **changes: Any) -> bool:
        with self._writing() as connection:
            row = connection.execute(_HELD, _name(lease)).first()
            if row is None:
                return False
            if not row.wanted:
                self._end(connection, row, unwanted_verdict(connection, row))
                return False
            self._requeue(connection, row, reason, **changes)
            return True

    def _requeue(self, connection: Connection, row: Row[Any], reason: str | None, **changes: Any) -> None:
        now = self._clock()
        again = {"state": "queued", "queued_at": now, "announced_at": now, "announcements": 0}
        connection.execute(
            update(evaluations).where(_row.seq == row.seq).values(version=_row.version + 1, **again, **changes)
        )
        if reason is not None:
            self._count(connection, [(counters.REQUEUED, {"reason": reason}, None)])

    def finish(
        self, lease: Lease, verdict: Verdict, phases_s: Mapping[str, float], sandbox_start_s: Sequence[float] = ()
    ) -> bool:
        """Store the verdict, once and for all. False where the lease is lost: then nothing has changed.

        `phases_s` (seconds by phase) and `sandbox_start_s` (seconds of each start) go into the tallies. Repeating a
        call whose answer got lost is right, and answers True. Raises StorageError, InternalError.
        """
        with self._writing() as connection:
            row = connection.execute(_HELD, _name(lease)).first()
            if row is None:
                return self._was_finished(connection, lease, verdict)
            more: list[counters.Event] = [
                *((counters.PHASE, {"phase": phase}, seconds) for phase, seconds in phases_s.items()),
                *((counters.SANDBOX_START, {}, seconds) for seconds in sandbox_start_s),
            ]
            self._end(connection, row, verdict, more)
            connection.execute(_ONE_MORE, {"by": lease.worker})
            return True

    def _was_finished(self, connection: Connection, lease: Lease, verdict: Verdict) -> bool:
        query = (
            select(verdicts.c.body)
            .join(evaluations, _row.seq == verdicts.c.seq)
            .where(_row.id == lease.evaluation_id, _row.token == lease.token, is_done)
        )
        return connection.execute(query).scalar() == verdict.model_dump_json()

    def _end(
        self, connection: Connection, row: Row[Any], verdict: Verdict, more: Iterable[counters.Event] = ()
    ) -> None:
        """The one place where an evaluation becomes done, which is counted, and `more`. The caller holds the row."""
        body = verdict.model_dump_json()
        try:
            Verdict.model_validate_json(body)
        except ValueError as error:
            # One verdict that cannot be read back would spoil every list that it is on.
            raise InternalError(error) from error
        now = self._clock()
        connection.execute(_NEW_VERDICT, {"seq": row.seq, "body": body})
        connection.execute(_END, {"of_seq": row.seq, "as": verdict.status.value, "now": now})
        events: list[counters.Event] = [
            *more,
            (counters.FINISHED, {"status": verdict.status.value, "backend": verdict.backend}, None),
            (counters.TURNAROUND, {}, now - row.created_at),
        ]
        if row.started_at is not None:
            events.append((counters.WAITING, {}, row.started_at - row.created_at))
        if verdict.compile is not None and verdict.compile.succeeded is not None:
            events.append((counters.COMPILATIONS, {"cached": str(verdict.compile.cached).lower()}, None))
        self._count(connection, events)

    def sweep(self) -> Swept:
        """End lost leases, and say what is to be announced (again). Raises StorageError.

        To be called every second or so, always on the same Store, which remembers what it saw: a lease of `lease_s`
        is lost when at least four sweeps, over `lease_s` or more, found it where it was. Several processes may sweep.
        """
        with self._sweeping:
            lost = self._look()
            requeued, dead, cancelled = [], [], []
            for seq, beat in lost:
                with self._writing() as connection:
                    held = select(*_row).where(_row.seq == seq, _row.beat == beat, is_running).with_for_update()
                    row = connection.execute(held).first()
                    if row is None:
                        continue
                    if not row.wanted:
                        self._end(connection, row, unwanted_verdict(connection, row))
                        cancelled.append(row.id)
                    elif row.attempt >= MAX_ATTEMPTS:
                        self._end(connection, row, _lost_verdict(connection, row))
                        self._count(connection, [(counters.DEAD_LETTERS, {}, None)])
                        dead.append(row.id)
                    else:
                        self._requeue(connection, row, "lost")
                        requeued.append((row.id, row.queue))
            return Swept(tuple(requeued), tuple(dead), tuple(cancelled), self._stale())

    def _look(self) -> list[tuple[int, int]]:
        """(seq, beat) of the leases that have been still for too long."""
        with self._reading() as connection:
            rows = connection.execute(_RUNNING).all()
        now = self._steady_clock()
        passed_s = 0.0 if self._swept_at is None else max(0.0, now - self._swept_at)
        self._swept_at = now
        watched: dict[int, _Watched] = {}
        for row in rows:
            before = self._watched.get(row.seq)
            if before is None or before.beat != row.beat:
                watched[row.seq] = _Watched(row.beat, 0.0)
            else:
                # A long time between two sweeps (no database, a machine that slept) may have been one in which nobody
                # could renew: it counts as one missed renewal, whatever its length.
                watched[row.seq] = _Watched(row.beat, before.still_s + min(passed_s, row.lease_s / 3))
        self._watched = watched
        return [(row.seq, row.beat) for row in rows if watched[row.seq].still_s >= row.lease_s]

    def _stale(self) -> tuple[tuple[str, str], ...]:
        now = self._clock()
        # An announcement of the future was made before the clock was set back.
        old = is_queued & or_(_row.announced_at < now - STALE_S, _row.announced_at > now + STALE_S)
        query = select(_row.seq, _row.id, _row.queue, _row.announced_at, _row.announcements).where(old)
        query = query.order_by(_row.seq).limit(_MAX_ANNOUNCED)
        with self._reading() as connection:
            if connection.execute(query.limit(1)).first() is None:
                return ()
        with self._writing() as connection:
            rows = [
                row
                for row in connection.execute(query.with_for_update(skip_locked=True))
                if abs(now - row.announced_at) > STALE_S * 2 ** min(row.announcements, 2)
            ]
            again = update(evaluations).where(_row.seq.in_([row.seq for row in rows]))
            connection.execute(again.values(announced_at=now, announcements=_row.announcements + 1))
        return tuple((row.id, row.queue) for row in rows)


def _name(lease: Lease) -> dict[str, Any]:
    return {"of_id": lease.evaluation_id, "of_token": lease.token}


def unwanted_verdict(connection: Connection, row: Row[Any]) -> Verdict:
    """The verdict of an evaluation that nobody wants any more."""
    message = "The caller dropped this evaluation before it had a verdict."
    return _without_result(connection, row, Status.CANCELLED, message, "Submit it again to have it judged.")


def _lost_verdict(connection: Connection, row: Row[Any]) -> Verdict:
    message = f"The grader lost this evaluation {row.attempt} times: the worker that had it stopped answering."
    hint = "This is a fault of the grader, not of the submission: submit it again, or ask the operator."
    return _without_result(connection, row, Status.INTERNAL_ERROR, message, hint)


def _without_result(connection: Connection, row: Row[Any], status: Status, message: str, hint: str) -> Verdict:
    body = connection.execute(_BODY, {"of_seq": row.seq}).scalar_one()
    submission = Submission.model_validate_json(body)
    on_gpu = row.queue.startswith("gpu") or (row.queue == "compile" and submission.backend == "gpu")
    begun = Phase.COMPILE if row.stage == "compile" else Phase.LAUNCH
    ruling = Ruling(status, Phase.SCREEN if row.started_at is None else begun, message, hint)
    return verdict_without_result(submission.problem, "gpu" if on_gpu else "sim", ruling)
