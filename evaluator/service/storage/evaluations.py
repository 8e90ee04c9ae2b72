"""The store: the one truth about every evaluation, on SQLite or PostgreSQL.

An evaluation is accepted when `accept` returns, and from then on it ends exactly once, whatever dies in between. What
workers do with it is in `leases.py`, the workers themselves in `fleet.py`, bearer keys in `keyring.py`, counters in
`tallies.py`. All methods may be called from any thread. They raise StorageError where the database cannot be used;
then they have changed nothing, or (where the connection broke at the very end) all. A forked child makes its own.
"""

import hashlib
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, case, delete, func, insert, null, select, update

from common.contract import Status, Submission, Verdict
from evaluator.errors import UsageError
from evaluator.service.storage import counters
from evaluator.service.storage.api_keys import ApiKeyRepository
from evaluator.service.storage.leases import Leases, unwanted_verdict
from evaluator.service.storage.models import (
    Accepted,
    Answer,
    Asked,
    IdempotencyConflictError,
    LargeEvaluationError,
    Lease,
    Page,
    QueueFullError,
    QuotaExceededError,
    State,
    StoredEvaluation,
    Swept,
    Tally,
    Waiting,
    WorkerFacts,
)
from evaluator.service.storage.secrets import Key, Quota, new_evaluation_id
from evaluator.service.storage.tables import (
    evaluations,
    idempotency,
    is_done,
    is_open,
    is_queued,
    submissions,
    tenants,
    verdicts,
    workers,
)
from evaluator.service.storage.workers import WorkerRegistry

__all__ = [
    "Accepted",
    "Answer",
    "Asked",
    "IdempotencyConflictError",
    "Key",
    "LargeEvaluationError",
    "Lease",
    "Page",
    "QueueFullError",
    "Quota",
    "QuotaExceededError",
    "State",
    "Store",
    "StoredEvaluation",
    "Swept",
    "Tally",
    "Waiting",
    "WorkerFacts",
]

_NEVER_REUSED = (Status.INTERNAL_ERROR, Status.TIMEOUT, Status.CANCELLED)
_MINUTE_S = 60.0
_JUMP_S = 60.0
_ONCE = 500
"""Rows that one statement names or deletes."""

_row = evaluations.c
_whole: Select[Any] = (
    select(*_row, submissions.c.body.label("submission"), verdicts.c.body.label("verdict"))
    .join(submissions, submissions.c.seq == _row.seq)
    .outerjoin(verdicts, verdicts.c.seq == _row.seq)
)

# Statements of the way that every submission takes are built once: building costs more than running them.
_BY_SEQ = _whole.where(_row.seq == bindparam("of_seq"))
_BY_ID = _whole.where(_row.id == bindparam("of_id"))
_BY_ID_OF_TENANT = _BY_ID.where(_row.tenant == bindparam("of_tenant"))
_chars = func.length(submissions.c.body) + func.coalesce(func.length(verdicts.c.body), 0)
_is_small = _chars <= bindparam("max_chars")
_SMALL_BY_ID: Select[Any] = (
    select(
        *_row,
        case((_is_small, submissions.c.body), else_=null()).label("submission"),
        case((_is_small, verdicts.c.body), else_=null()).label("verdict"),
        _chars.label("chars"),
    )
    .join(submissions, submissions.c.seq == _row.seq)
    .outerjoin(verdicts, verdicts.c.seq == _row.seq)
    .where(_row.id == bindparam("of_id"))
)
_SMALL_BY_ID_OF_TENANT = _SMALL_BY_ID.where(_row.tenant == bindparam("of_tenant"))
_VERSIONS = select(_row.id, _row.version, _row.state).where(_row.id.in_(bindparam("of_ids", expanding=True)))
_KEYED = select(idempotency.c.seq, idempotency.c.body_sha256).where(
    idempotency.c.tenant == bindparam("of_tenant"), idempotency.c.key == bindparam("of_key")
)
_REUSABLE = (
    select(_row.seq)
    .where(is_done, _row.tenant == bindparam("of_tenant"), _row.reuse_key == bindparam("of_key"))
    .where(_row.status.not_in(_NEVER_REUSED))
    .order_by(_row.seq.desc())
    .limit(1)
)
_COUNT_WAITING = select(func.count()).where(is_queued)
_COUNT_OPEN = select(func.count()).where(_row.tenant == bindparam("of_tenant"), is_open)
_RECENT = (
    select(_row.created_at)
    .where(_row.tenant == bindparam("of_tenant"))
    .where(_row.created_at > bindparam("since"), _row.created_at < bindparam("until"))
    .order_by(_row.created_at.desc())
    .limit(1)
    .offset(bindparam("but"))
)
_NEW = insert(evaluations).returning(*_row)
_NEW_SUBMISSION = insert(submissions)
_NEW_KEY = insert(idempotency)
_AT_FIRST = {
    "state": "queued",
    "stage": "compile",
    "announcements": 0,
    "attempt": 0,
    "token": 0,
    "beat": 0,
    "lease_s": 0.0,
    "wanted": True,
    "version": 1,
}


class Store(Leases, WorkerRegistry, ApiKeyRepository):
    """See the module. `url` and the clocks are those of `Database`."""

    def accept(
        self,
        submission: Submission,
        tenant: str,
        *,
        queue: str,
        max_queued: int,
        reuse_key: str | None = None,
        idempotency_key: str | None = None,
        fresh: bool = False,
        request_id: str = "",
        quota: Quota | None = None,
    ) -> Accepted:
        """Take a submission in: to wait for the compile stage in `queue`, or answered by an evaluation that exists.

        An `idempotency_key` that this tenant used before gives the evaluation of that time. A `reuse_key` (everything
        that a verdict depends on, see `keys.reuse_key`) gives the newest verdict under it, unless `fresh`; a verdict
        that is `internal_error`, `timeout` or `cancelled` is never given again. Neither needs room or quota.

        Raises IdempotencyConflictError (the key came with another submission), QueueFullError (`max_queued`
        evaluations wait), QuotaExceededError, StorageError.
        """
        asked = Asked(submission, tenant, queue, reuse_key, idempotency_key, fresh, request_id, quota)
        answer = self.accept_all([asked], max_queued=max_queued)[0]
        if not isinstance(answer, Accepted):
            raise answer
        return answer

    def accept_all(self, asked: Sequence[Asked], *, max_queued: int) -> list[Answer]:
        """As if `accept` were called for each, in order, but in one transaction; a refusal stands in its one's place.

        Raises StorageError; then none of them is accepted.
        """
        answers: list[Answer] = []
        accepted: list[Accepted] = []
        with self._writing() as connection:
            self._one_at_a_time(connection)
            # Nobody else accepts meanwhile, and what workers take only makes room.
            waiting = connection.execute(_COUNT_WAITING).scalar_one()
            for one in asked:
                try:
                    accepted.append(self._accept(connection, one, waiting, max_queued))
                    answers.append(accepted[-1])
                    waiting += accepted[-1].created
                except (QueueFullError, QuotaExceededError, IdempotencyConflictError) as refusal:
                    answers.append(refusal)
            self._count(connection, [(counters.ACCEPTED, {"answer": answer.how}, None) for answer in accepted])
        return answers

    def _accept(self, connection: Connection, asked: Asked, waiting: int, max_queued: int) -> Accepted:
        """Raises what `accept` does, and has written nothing then."""
        body = asked.submission.model_dump_json()
        body_sha256 = hashlib.sha256(body.encode()).hexdigest()
        if asked.idempotency_key is not None:
            name = {"of_tenant": asked.tenant, "of_key": asked.idempotency_key}
            before = connection.execute(_KEYED, name).first()
            if before is not None:
                evaluation = _stored(connection.execute(_BY_SEQ, {"of_seq": before.seq}).one())
                if before.body_sha256 != body_sha256:
                    raise IdempotencyConflictError(evaluation.id)
                return Accepted(evaluation, "repeated")
        seq = None
        if asked.reuse_key is not None and not asked.fresh:
            seq = connection.execute(_REUSABLE, {"of_tenant": asked.tenant, "of_key": asked.reuse_key}).scalar()
        if seq is not None:
            accepted = Accepted(_stored(connection.execute(_BY_SEQ, {"of_seq": seq}).one()), "reused")
        else:
            self._refuse(connection, asked, waiting, max_queued)
            now = self._clock()
            new = {
                "id": new_evaluation_id(),
                "tenant": asked.tenant,
                "queue": asked.queue,
                "problem": asked.submission.problem,
                "reuse_key": asked.reuse_key,
                "request_id": asked.request_id,
                "created_at": now,
                "queued_at": now,
                "announced_at": now,
            }
            connection.execute(self._new_tenant, {"name": asked.tenant, "turn": 0})
            row = connection.execute(_NEW, new | _AT_FIRST).one()
            seq = row.seq
            connection.execute(_NEW_SUBMISSION, {"seq": seq, "body": body})
            accepted = Accepted(_held(row, asked.submission), "created")
        if asked.idempotency_key is not None:
            note = {"tenant": asked.tenant, "key": asked.idempotency_key, "seq": seq, "body_sha256": body_sha256}
            connection.execute(_NEW_KEY, note)
        return accepted

    @cached_property
    def _new_tenant(self) -> Any:
        return self._insert(tenants).on_conflict_do_nothing(index_elements=["name"])

    def _refuse(self, connection: Connection, asked: Asked, waiting: int, max_queued: int) -> None:
        """Raises QuotaExceededError or QueueFullError where there is no room. Nobody else accepts meanwhile."""
        now = self._clock()
        quota, mine = asked.quota or Quota(), {"of_tenant": asked.tenant}
        if quota.per_minute is not None:
            # Rows of the future were made before the clock was set back; those further off than a minute don't count.
            left = quota.per_minute - asked.refused_lately
            recent = {"since": now - _MINUTE_S, "until": now + _MINUTE_S, "but": max(0, left - 1)}
            last = connection.execute(_RECENT, mine | recent).scalar()
            if last is not None or left <= 0:
                free_in_s = _MINUTE_S if last is None else last + _MINUTE_S - now
                raise QuotaExceededError("per_minute", quota.per_minute, max(1.0, free_in_s))
        if quota.concurrent is not None:
            open_now = connection.execute(_COUNT_OPEN, mine).scalar_one()
            if open_now >= quota.concurrent:
                raise QuotaExceededError("concurrent", quota.concurrent, self._pace_s(connection))
        if waiting >= max_queued:
            raise QueueFullError(waiting, self._pace_s(connection))

    def _pace_s(self, connection: Connection) -> float:
        """Seconds from one verdict to the next, as in the last minute; 1 to 30."""
        recent = select(func.count()).where(is_done, _row.finished_at > self._clock() - _MINUTE_S)
        return min(30.0, max(1.0, _MINUTE_S / max(1, connection.execute(recent).scalar_one())))

    def drop(self, evaluation_id: str, tenant: str | None) -> StoredEvaluation | None:
        """The caller lost interest: one that waits ends at once as `cancelled`; for one that runs, `renew` answers
        False from now on, and its worker ends it. What is done stays as it is.

        Answers the evaluation as it is then; None where `tenant` has none of this id (None: any tenant). Raises
        StorageError.
        """
        with self._writing() as connection:
            row = connection.execute(select(*_row).where(_of(evaluation_id, tenant)).with_for_update()).first()
            if row is None:
                return None
            if row.state == "queued":
                self._end(connection, row, unwanted_verdict(connection, row))
            elif row.state == "running" and row.wanted:
                unwanted = update(evaluations).where(_row.seq == row.seq)
                connection.execute(unwanted.values(wanted=False, version=_row.version + 1))
            return _stored(connection.execute(_whole.where(_row.seq == row.seq)).one())

    def get(self, evaluation_id: str, tenant: str | None, max_chars: int | None = None) -> StoredEvaluation | None:
        """One evaluation; None where `tenant` has none of this id (None: any tenant).

        Raises LargeEvaluationError (its texts have more than `max_chars`, which were not read), StorageError.
        """
        of_tenant, any_tenant = (
            (_BY_ID_OF_TENANT, _BY_ID) if max_chars is None else (_SMALL_BY_ID_OF_TENANT, _SMALL_BY_ID)
        )
        names = {"of_id": evaluation_id, "of_tenant": tenant, "max_chars": max_chars}
        with self._reading() as connection:
            row = connection.execute(any_tenant if tenant is None else of_tenant, names).first()
        if row is not None and row.submission is None:
            raise LargeEvaluationError(row.chars)
        return None if row is None else _stored(row)

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
        """The evaluations of `tenant` (None: of all), newest first, `limit` a page.

        Sources are left out: they are empty, so that a page is small whatever the sources are. One page is read at a
        time, row by row, for the same reason. `cursor` is a page's `next_cursor`. Raises UsageError for one that this
        tenant cannot have, StorageError.
        """
        query = _whole.order_by(_row.seq.desc()).limit(limit + 1)
        chosen = {_row.tenant: tenant, _row.state: state, _row.status: status, _row.problem: problem}
        for column, value in chosen.items():
            if value is not None:
                query = query.where(column == str(value))
        with self._listing, self._reading() as connection:
            if cursor is not None:
                before = connection.execute(select(_row.seq).where(_of(cursor, tenant))).scalar()
                if before is None:
                    raise UsageError(
                        f"There is no page after {cursor!r}: that evaluation is not there (any more).",
                        "Start again with the first page.",
                    )
                query = query.where(_row.seq < before)
            items = tuple(_stored(row).without_source() for row in connection.execute(query))
        return Page(items[:limit], items[limit - 1].id if len(items) > limit else None)

    @cached_property
    def _listing(self) -> threading.Lock:
        return threading.Lock()

    def watch(self, ids: Collection[str]) -> dict[str, tuple[int, State]]:
        """(version, state) of each evaluation that exists; cheap, to wait for many. Raises StorageError."""
        seen: dict[str, tuple[int, State]] = {}
        with self._reading() as connection:
            for some in _portions(ids):
                for found, version, state in connection.execute(_VERSIONS, {"of_ids": some}):
                    seen[found] = (version, state)
        return seen

    def depth(self) -> Mapping[str, Waiting]:
        """What waits in each queue that has something waiting. Raises StorageError."""
        query = select(_row.queue, func.count().label("count"), func.min(_row.queued_at).label("since"))
        with self._reading() as connection:
            rows = connection.execute(query.where(is_queued).group_by(_row.queue)).all()
        now = self._clock()
        return {row.queue: Waiting(row._mapping["count"], max(0.0, now - row.since)) for row in rows}

    def announced(self, ids: Collection[str]) -> None:
        """These were announced to the workers just now: `sweep` names them again only when that has grown old."""
        with self._writing() as connection:
            for some in _portions(ids):
                held = select(_row.seq).where(_row.id.in_(some), is_queued).order_by(_row.seq)
                free = connection.execute(held.with_for_update(skip_locked=True)).scalars().all()
                connection.execute(update(evaluations).where(_row.seq.in_(free)).values(announced_at=self._clock()))

    def retain(self, older_than_s: float) -> int:
        """Delete evaluations that ended longer ago than this, and workers not seen for as long; says how many
        evaluations. Raises StorageError.

        Does nothing at the first call after the time of day has jumped: a clock that is wrong for a moment must not
        cost a year of verdicts.
        """
        now, deleted = self._clock(), 0
        offset = now - self._steady_clock()
        jumped = self._offset is not None and abs(offset - self._offset) > _JUMP_S
        self._offset = offset
        if jumped:
            return 0
        with self._writing() as connection:
            connection.execute(delete(workers).where(workers.c.seen_at < now - older_than_s))
        old = select(_row.seq).where(is_done, _row.finished_at < now - older_than_s).order_by(_row.seq).limit(_ONCE)
        while True:
            with self._writing() as connection:
                some: Sequence[int] = connection.execute(old.with_for_update(skip_locked=True)).scalars().all()
                connection.execute(delete(evaluations).where(_row.seq.in_(some)))
            deleted += len(some)
            if len(some) < _ONCE:
                return deleted

    _offset: float | None = None
    """Time of day less steady time, at the last `retain`."""


def _portions(ids: Collection[str]) -> Iterator[tuple[str, ...]]:
    rest = iter(ids)
    while some := tuple(islice(rest, _ONCE)):
        yield some


def _of(evaluation_id: str, tenant: str | None) -> Any:
    mine = _row.id == evaluation_id
    return mine if tenant is None else mine & (_row.tenant == tenant)


def _stored(row: Row[Any]) -> StoredEvaluation:
    verdict = None if row.verdict is None else Verdict.model_validate_json(row.verdict)
    return _held(row, Submission.model_validate_json(row.submission), verdict)


def _held(row: Row[Any], submission: Submission, verdict: Verdict | None = None) -> StoredEvaluation:
    return StoredEvaluation(
        id=row.id,
        tenant=row.tenant,
        state=row.state,
        submission=submission,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        progress=row.progress,
        verdict=verdict,
        stage=row.stage,
        queue=row.queue,
        attempt=row.attempt,
        worker=row.worker,
        wanted=row.wanted,
        version=row.version,
        request_id=row.request_id,
    )
