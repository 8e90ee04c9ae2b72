"""Submissions: taken in, answered by what exists, or refused.

An evaluation is accepted when `accept_all` returns, and from then on it ends exactly once, whatever dies in between.
"""

import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Any, Final, get_args

from sqlalchemy import Connection, bindparam, delete, func, insert, select

from common.contract import Status, is_foreign_problem, kept_source
from evaluator.service.storage import counters
from evaluator.service.storage.database import AdvisoryLock, Database, insert_into
from evaluator.service.storage.evaluation_rows import (
    WHOLE,
    end_evaluation,
    evaluation_of,
    keep_foreign,
    stored_evaluation,
    use_foreign,
)
from evaluator.service.storage.models import (
    Accepted,
    Answer,
    Asked,
    IdempotencyConflictError,
    NoWorkerError,
    QueueFullError,
    QuotaExceededError,
    Refusal,
)
from evaluator.service.storage.secrets import Quota, new_evaluation_id
from evaluator.service.storage.tables import (
    evaluations,
    idempotency,
    is_done,
    is_open,
    is_queued,
    submissions,
    tenants,
)

_NEVER_REUSED = (Status.INTERNAL_ERROR, Status.TIMEOUT, Status.CANCELLED)
_MINUTE_S = 60.0
KEYS_THAT_REUSED: Final = 64
"""Idempotency keys that are kept of one evaluation beside its own: what it answers again costs no quota, so the rows
that this leaves are bounded here. A request is repeated within minutes, before so many others came to the same end;
one whose key is forgotten gets the same verdict as the first time, by being the same submission."""

_row = evaluations.c

# Statements of the way that every submission takes are built once: building costs more than running them.
_BY_SEQ = WHOLE.where(_row.seq == bindparam("of_seq"))
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
_REUSABLE_IN_HOST_TIER = _REUSABLE.where(_row.status != Status.UNSUPPORTED)
"""For what asks for the host tier: whether that runs is for the owner of a machine to say, who may since have changed
it, so that what it could not do then it may do now."""
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


@cache
def _new_tenant(dialect: str) -> Any:
    return insert_into(tenants, dialect).on_conflict_do_nothing(index_elements=["name"])


class SubmissionRepository:
    """Takes submissions in."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def accept_all(self, asked: Sequence[Asked], *, max_queued: int) -> list[Answer]:
        """Take each in, in order: to wait for the compile stage in its queue, or answered by one that exists.

        An `idempotency_key` that this tenant used before gives the evaluation of that time. A `reuse_key` (everything
        that a verdict depends on, see `secrets.reuse_key`) gives the newest verdict under it, unless `fresh`; one
        that is `internal_error`, `timeout` or `cancelled` is never given again. Neither needs room or quota.

        One that brings its `verdict` is done at once, and takes no worker's time.

        What stands for a problem that the tenant states is kept with the first submission that brings it.

        A refusal stands in its one's place: IdempotencyConflictError (the key came with another submission),
        NoWorkerError (it is `unserved`), QueueFullError (`max_queued` evaluations wait), QuotaExceededError,
        TooManyProblemsError, UnknownProblemError (a problem of the tenant's own that is not here). All is one
        transaction. Raises StorageError; then none of them is accepted.
        """
        answers: list[Answer] = []
        accepted: list[Accepted] = []
        with self._database.writing() as connection:
            self._database.hold(connection, AdvisoryLock.ACCEPT)
            # Nobody else accepts meanwhile, and what workers take only makes room.
            waiting = connection.execute(_COUNT_WAITING).scalar_one()
            for one in asked:
                try:
                    accepted.append(self._accept(connection, one, waiting, max_queued))
                    answers.append(accepted[-1])
                    waiting += accepted[-1].waits
                except get_args(Refusal) as refusal:
                    answers.append(refusal)
            events: list[counters.Event] = [(counters.ACCEPTED, {"answer": one.how}, None) for one in accepted]
            counters.count_events(connection, events)
        return answers

    def _accept(self, connection: Connection, asked: Asked, waiting: int, max_queued: int) -> Accepted:
        """Raises the refusal, and has written nothing then."""
        body = asked.submission.model_dump_json()
        body_sha256 = hashlib.sha256(body.encode()).hexdigest()
        if asked.idempotency_key is not None:
            name = {"of_tenant": asked.tenant, "of_key": asked.idempotency_key}
            before = connection.execute(_KEYED, name).first()
            if before is not None:
                evaluation = stored_evaluation(connection.execute(_BY_SEQ, {"of_seq": before.seq}).one())
                if before.body_sha256 != body_sha256:
                    raise IdempotencyConflictError(evaluation.id)
                return Accepted(evaluation, "repeated")
        if asked.unserved:
            raise NoWorkerError
        seq = None
        if asked.reuse_key is not None and not asked.fresh:
            in_host_tier = asked.submission.settings.host_tier != "off"
            statement = _REUSABLE_IN_HOST_TIER if in_host_tier else _REUSABLE
            seq = connection.execute(statement, {"of_tenant": asked.tenant, "of_key": asked.reuse_key}).scalar()
        if seq is not None:
            accepted = Accepted(stored_evaluation(connection.execute(_BY_SEQ, {"of_seq": seq}).one()), "reused")
        else:
            self._refuse(connection, asked, waiting, max_queued)
            now = self._database.clock()
            if asked.foreign is not None:
                keep_foreign(connection, asked.tenant, asked.foreign, asked.most_foreign, now)
            elif is_foreign_problem(asked.submission.problem):
                use_foreign(connection, asked.tenant, asked.submission.problem, now)
            new = {
                "id": new_evaluation_id(),
                "tenant": asked.tenant,
                "queue": asked.queue,
                "problem": asked.submission.problem,
                "backend": asked.submission.backend,
                "reuse_key": asked.reuse_key,
                "request_id": asked.request_id,
                "created_at": now,
                "queued_at": now,
                "announced_at": now,
            }
            connection.execute(_new_tenant(connection.dialect.name), {"name": asked.tenant, "turn": 0})
            row = connection.execute(_NEW, new | _AT_FIRST).one()
            seq = row.seq
            if asked.verdict is None:
                connection.execute(_NEW_SUBMISSION, {"seq": seq, "body": body})
                accepted = Accepted(evaluation_of(row, asked.submission), "created")
            else:
                kept = asked.submission.model_copy(update={"source": kept_source(asked.submission.source)})
                connection.execute(_NEW_SUBMISSION, {"seq": seq, "body": kept.model_dump_json()})
                end_evaluation(connection, row, asked.verdict, now)
                whole = connection.execute(_BY_SEQ, {"of_seq": seq}).one()
                accepted = Accepted(stored_evaluation(whole), "created")
        if asked.idempotency_key is not None:
            note = {"tenant": asked.tenant, "key": asked.idempotency_key, "seq": seq, "body_sha256": body_sha256}
            if not accepted.created:
                _forget_oldest_key(connection, seq)
                note["reused_at"] = self._database.clock()
            connection.execute(_NEW_KEY, note)
        return accepted

    def _refuse(self, connection: Connection, asked: Asked, waiting: int, max_queued: int) -> None:
        """Raises QuotaExceededError or QueueFullError where there is no room. Nobody else accepts meanwhile."""
        now = self._database.clock()
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
        recent = select(func.count()).where(is_done, _row.finished_at > self._database.clock() - _MINUTE_S)
        return min(30.0, max(1.0, _MINUTE_S / max(1, connection.execute(recent).scalar_one())))


def _forget_oldest_key(connection: Connection, seq: int) -> None:
    """Make room for one more key that an evaluation answers, where it has its number of them."""
    reused = idempotency.c.seq == seq, idempotency.c.reused_at.is_not(None)
    newest_first = select(idempotency.c.key).where(*reused).order_by(idempotency.c.reused_at.desc())
    for old in connection.execute(newest_first.offset(KEYS_THAT_REUSED - 1)).scalars().all():
        connection.execute(delete(idempotency).where(*reused, idempotency.c.key == old))
