"""Leases: who works on what.

    queued ──claim──> running ──finish──> done
       ^                 │ pass_on, give_back, lost
       └─────────────────┘ failed twice, lost alone twice, or dropped: done

Every write of a worker carries its token and changes nothing unless the row still runs under it. What becomes of a
lease that is lost is in `evaluation_rows.lose_attempt`.

An evaluation that was lost often is tried *alone*: while it runs, nothing else is claimed on its worker's host, and
its worker waits for what runs there already. The lease itself keeps the host free, so that nothing stays so for ever.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from sqlalchemy import Boolean, Connection, Double, bindparam, func, not_, or_, select, update

from common.contract import ProblemFace, ReferenceForm, Verdict, is_foreign_problem
from evaluator.service.storage import counters
from evaluator.service.storage.database import Database
from evaluator.service.storage.evaluation_rows import (
    end_evaluation,
    foreign_text,
    learned_foreign,
    lose_attempt,
    requeue_evaluation,
    submission_of,
    unwanted_verdict,
)
from evaluator.service.storage.models import FIRST_QUEUE, Lease
from evaluator.service.storage.sharing import shares
from evaluator.service.storage.tables import (
    evaluations,
    is_done,
    is_queued,
    is_running,
    verdicts,
    workers,
)

_row = evaluations.c

# Statements of the way that every evaluation takes are built once: building costs more than running them.
_is_it = _row.seq == bindparam("of_seq")
_is_held = (_row.id == bindparam("of_id")) & (_row.token == bindparam("of_token")) & is_running
"""The row of a lease, while it runs under it."""
_HELD = select(*_row).where(_is_held).with_for_update()
_is_foreign = or_(*(_row.problem.startswith(f"{form}_", autoescape=True) for form in get_args(ReferenceForm)))
_may_have = or_(bindparam("references", type_=Boolean), _row.queue == FIRST_QUEUE, not_(_is_foreign))
"""Who compiles needs to read no reference: it passes the evaluation on."""
_waits = is_queued & _row.queue.in_(bindparam("of_queues", expanding=True)) & _may_have
_ANY = select(_row.seq).where(_waits).limit(1)
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
        claimed_at=bindparam("now", type_=Double),
    )
    .returning(*_row)
)
_RENEW = update(evaluations).where(_is_held, _row.wanted).values(beat=_row.beat + 1, lease_s=bindparam("for_s"))
_PROGRESS = (
    update(evaluations)
    .where(_is_held)
    .values(progress=bindparam("text"), beat=_row.beat + 1, version=_row.version + 1)
)
_itself = workers.alias("itself")
_its_host = select(_itself.c.host).where(_itself.c.id == bindparam("by")).scalar_subquery()
_runs_here = is_running & _row.worker.in_(select(workers.c.id).where(workers.c.host == _its_host))
_KEPT_FREE = select(_row.seq).where(_runs_here, _row.alone).limit(1)
"""Whether the host of a worker is one evaluation's alone."""
# Of two that are to be alone the older one goes first.
_own = evaluations.alias("own")
_own_seq = select(_own.c.seq).where(_own.c.id == bindparam("of_id")).scalar_subquery()
_COMPANY = (
    select(_row.seq)
    .where(_runs_here, _row.id != bindparam("of_id"))
    .where(or_(not_(_row.alone), _row.seq < _own_seq))
    .limit(1)
)
_ONE_MORE = update(workers).where(workers.c.id == bindparam("by")).values(jobs_done=workers.c.jobs_done + 1)


_NO_LOSSES: Final[Mapping[str, Any]] = {"losses": 0, "lost_at": None, "alone": False}


class LeaseRepository:
    """The leases of workers: taken, kept, and ended with a verdict or for another to go on."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def claim(self, queues: Sequence[str], worker: str, lease_s: float, *, references: bool = True) -> Lease | None:
        """The next evaluation of `queues`: of the tenant whose turn it is by what each used of the processors (see
        fair_share.py); each tenant's oldest first. None when none waits that this worker may take, or one runs
        that is to be alone on this host. Raises StorageError.

        `worker` is the claimer's id; the lease is lost when it is not renewed for `lease_s` seconds. `references`:
        whether it can carry out what callers state problems with; else others have to judge those.
        """
        ours = {"of_queues": tuple(queues), "references": references}
        if self._database.has_one_writer:
            # Looking needs no turn to write; sixteen idle workers that look must not wait for each other.
            with self._database.reading() as connection:
                if connection.execute(_ANY, ours).first() is None:
                    return None
        with self._database.writing() as connection:
            if connection.execute(_KEPT_FREE, {"by": worker}).first() is not None:
                return None
            turns = shares.turns(connection, _waits, ours, worker, self._database.clock())
            # At first whatever nobody else holds; then, should all be held, whatever is let go.
            for oldest in (_OLDEST_FREE, _OLDEST):
                for tenant, start in turns:
                    seq = connection.execute(oldest, ours | {"of_tenant": tenant}).scalar()
                    if seq is not None:
                        return self._begin(connection, seq, worker, lease_s, start)
        return None

    def _begin(self, connection: Connection, seq: int, worker: str, lease_s: float, start: float) -> Lease:
        now = self._database.clock()
        values = {"of_seq": seq, "by": worker, "for_s": lease_s, "now": now}
        row = connection.execute(_BEGIN, values).one()
        shares.note_begun(connection, row.tenant, start, now)
        if row.alone:
            counters.count_events(connection, [(counters.TRIED_ALONE, {}, None)])
        foreign = foreign_text(connection, row.tenant, row.problem) if is_foreign_problem(row.problem) else None
        return Lease(
            evaluation_id=row.id,
            token=row.token,
            attempt=row.attempt,
            worker=worker,
            submission=submission_of(connection, seq),
            stage=row.stage,
            queue=row.queue,
            compiled_s=row.compiled_s,
            request_id=row.request_id,
            worked_s=row.worked_s or 0.0,
            tenant=row.tenant,
            version=row.version,
            foreign=foreign,
            alone=row.alone,
        )

    def renew(self, lease: Lease, lease_s: float) -> bool:
        """Say that the work goes on, for `lease_s` more seconds. False: the lease is lost, or the evaluation
        was cancelled: stop working. Raises StorageError, which says nothing about the lease: try again soon.
        """
        with self._database.writing() as connection:
            return connection.execute(_RENEW, _name(lease) | {"for_s": lease_s}).rowcount == 1

    def progress(self, lease: Lease, text: str) -> bool:
        """Say what is being done; renews the lease too. False where the lease is lost. Raises StorageError."""
        with self._database.writing() as connection:
            return connection.execute(_PROGRESS, _name(lease) | {"text": text[:500]}).rowcount == 1

    def learned(self, lease: Lease, face: ProblemFace | None, refusal: str | None) -> None:
        """Write down what became of the problem that its caller stated: what kernels' authors see, or why it can be
        none. Raises StorageError.
        """
        with self._database.writing() as connection:
            learned_foreign(connection, lease.tenant, lease.submission.problem, face, refusal)

    def pass_on(
        self,
        lease: Lease,
        queue: str,
        compiled_s: float | None,
        worked_s: float = 0.0,
        *,
        used_s: float | None = None,
    ) -> bool:
        """The compile stage is done: wait for the judge stage in `queue`; attempts count from the start again.

        `compiled_s`, `worked_s`: what the compiler and the whole stage took, seconds, for the worker that judges.
        `used_s`: what the work took of processors, which is charged to the tenant; None: as long as a worker had it.
        False where the lease is lost, or the evaluation was cancelled (then it has ended). Raises StorageError.
        """
        done = {"compiled_s": compiled_s, "worked_s": worked_s}
        again = {"stage": "judge", "queue": queue, "attempt": 0, "yields": 0, **_NO_LOSSES}
        return self._let_go(lease, None, used_s, **again, **done)

    def give_back(
        self, lease: Lease, *, counted: bool = False, yielded: bool = False, used_s: float | None = None
    ) -> bool:
        """Let another worker have it, first in its tenant's line. A worker that ends gives back without counting the
        attempt; one that met a fault of ours and wants another try counts it. `yielded`: it makes room for another
        tenant. `used_s`: as in `pass_on`.

        False where the lease is lost, or the evaluation was cancelled (then it has ended). Raises StorageError.
        """
        reason = "failed" if counted else "yielded" if yielded else "handed_back"
        again = {"attempt": _row.attempt - (0 if counted else 1), "yields": _row.yields + int(yielded)}
        return self._let_go(lease, reason, used_s, **again)

    def lose(self, lease: Lease) -> bool:
        """The attempt was ended from outside: let another worker try, and hold it against nobody, up to a bound.

        True where it waits again; else the lease was lost, or the evaluation has ended. Raises StorageError.
        """
        with self._database.writing() as connection:
            row = connection.execute(_HELD, _name(lease)).first()
            return row is not None and lose_attempt(connection, row, self._database.clock()) == "requeued"

    def has_company(self, lease: Lease) -> bool:
        """Whether anything else runs on the host of a lease that is to be alone there. Raises StorageError."""
        with self._database.reading() as connection:
            return connection.execute(_COMPANY, _name(lease) | {"by": lease.worker}).first() is not None

    def has_to_yield(self, lease: Lease, queues: tuple[str, ...]) -> bool:
        """Whether to give it back at once (`yielded`), since its tenant holds more than its share of the workers that
        serve `queues`, and another waits that holds none. Raises StorageError.
        """
        with self._database.reading() as connection:
            return shares.has_to_yield(connection, lease.evaluation_id, lease.token, queues, self._database.clock())

    def _let_go(self, lease: Lease, reason: str | None, used_s: float | None, **changes: Any) -> bool:
        with self._database.writing() as connection:
            row = connection.execute(_HELD, _name(lease)).first()
            if row is None:
                return False
            if not row.wanted:
                end_evaluation(connection, row, unwanted_verdict(connection, row), self._database.clock())
                return False
            requeue_evaluation(connection, row, self._database.clock(), reason, used_s, **changes)
            return True

    def finish(
        self,
        lease: Lease,
        verdict: Verdict,
        phases_s: Mapping[str, float],
        sandbox_start_s: Sequence[float] = (),
        *,
        used_s: float | None = None,
    ) -> bool:
        """Store the verdict, once and for all. False where the lease is lost: then nothing has changed.

        `phases_s` (seconds by phase) and `sandbox_start_s` (seconds of each start) go into the tallies; `used_s`: as
        in `pass_on`. Repeating a call whose answer got lost is right, and answers True. Raises StorageError,
        InternalError.
        """
        with self._database.writing() as connection:
            row = connection.execute(_HELD, _name(lease)).first()
            if row is None:
                return self._was_finished(connection, lease, verdict)
            more: list[counters.Event] = [
                *((counters.PHASE, {"phase": phase}, seconds) for phase, seconds in phases_s.items()),
                *((counters.SANDBOX_START, {}, seconds) for seconds in sandbox_start_s),
            ]
            end_evaluation(connection, row, verdict, self._database.clock(), more, used_s)
            connection.execute(_ONE_MORE, {"by": lease.worker})
            return True

    def _was_finished(self, connection: Connection, lease: Lease, verdict: Verdict) -> bool:
        query = (
            select(verdicts.c.body)
            .join(evaluations, _row.seq == verdicts.c.seq)
            .where(_row.id == lease.evaluation_id, _row.token == lease.token, is_done)
        )
        return connection.execute(query).scalar() == verdict.model_dump_json()


def _name(lease: Lease) -> dict[str, Any]:
    return {"of_id": lease.evaluation_id, "of_token": lease.token}
