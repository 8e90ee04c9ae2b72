"""Sweeps: what becomes of work that was lost, what nobody has heard of, and what is old.

Whether a lease is lost is decided by watching: a sweeper remembers each lease's beat, and ends the lease when the
beat has not moved for the lease's length, by the sweeper's own steady clock. So no two clocks are ever compared, and
neither a time of day that jumps nor an hour without a database costs a worker its lease.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import delete, or_, select, update

from evaluator.service.storage.database import Database
from evaluator.service.storage.evaluation_rows import forget_foreign, lose_attempt
from evaluator.service.storage.models import ALIVE_WITHIN_S, FIRST_QUEUE, Swept, WorkerFacts
from evaluator.service.storage.tables import evaluations, is_done, is_queued, is_running, workers

STALE_S: Final = 30.0
"""Age at which an announcement is repeated for the first time; later ones wait up to four times as long."""

_MAX_ANNOUNCED: Final = 1000
_GPU_QUEUE: Final = "gpu"
_AS_AT_FIRST: Final = {
    "stage": "compile",
    "queue": FIRST_QUEUE,
    "attempt": 0,
    "yields": 0,
    "compiled_s": None,
    "worked_s": None,
    "losses": 0,
    "lost_at": None,
    "alone": False,
    "progress": None,
}
_MAX_DELETED: Final = 500
"""Rows that one transaction deletes."""
_JUMP_S: Final = 60.0
_row = evaluations.c
_RUNNING = select(_row.seq, _row.beat, _row.lease_s).where(is_running)


@dataclass(frozen=True)
class _Watched:
    """What a sweeper knows of one running evaluation: its last beat, and for how long it has not moved."""

    beat: int
    still_s: float


class SweepRepository:
    """What a sweeper does with evaluations. It remembers what it saw: sweep with the same one again."""

    def __init__(self, database: Database, fleet: Callable[[], Iterable[WorkerFacts]]) -> None:
        """`fleet`: the workers that live."""
        self._database = database
        self._sweeping = threading.Lock()
        self._swept_at: float | None = None
        self._watched: dict[int, _Watched] = {}
        self._fleet = fleet
        self._no_gpu_since: float | None = None
        """Steady time since when no worker serves a GPU, while evaluations that may run anywhere wait for one."""
        self._offset: float | None = None
        """Time of day less steady time, at the last `retain`."""

    def sweep(self) -> Swept:
        """End lost leases, and say what is to be announced (again). Raises StorageError.

        To be called every second or so, always on the same repository: a lease of `lease_s` is lost when at least
        four sweeps, over `lease_s` or more, found it where it was. Several processes may sweep.
        """
        with self._sweeping:
            requeued, dead, cancelled = [], [], []
            for seq, beat in self._look():
                with self._database.writing() as connection:
                    held = select(*_row).where(_row.seq == seq, _row.beat == beat, is_running).with_for_update()
                    row = connection.execute(held).first()
                    if row is None:
                        continue
                    now = self._database.clock()
                    match lose_attempt(connection, row, now):
                        case "cancelled":
                            cancelled.append(row.id)
                        case "dead":
                            dead.append(row.id)
                        case "requeued":
                            requeued.append((row.id, row.queue))
            return Swept(tuple(requeued), tuple(dead), tuple(cancelled), self._reroute(), self._stale())

    def _look(self) -> list[tuple[int, int]]:
        """(seq, beat) of the leases that have been still for too long."""
        with self._database.reading() as connection:
            rows = connection.execute(_RUNNING).all()
        now = self._database.steady_clock()
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

    def _reroute(self) -> tuple[tuple[str, str], ...]:
        """Let those that may run anywhere begin again where their queue, a GPU's, has been nobody's for as long as a
        worker may be silent: one that starts again meanwhile finds them. Who asked for a GPU waits for one.
        """
        waits = is_queued & (_row.queue == _GPU_QUEUE) & (_row.backend == "auto")
        with self._database.reading() as connection:
            if connection.execute(select(_row.seq).where(waits).limit(1)).first() is None:
                self._no_gpu_since = None
                return ()
        serving = [worker for worker in self._fleet() if not worker.draining]
        queues = {queue for worker in serving for queue in worker.queues}
        if any(worker.serves_gpu for worker in serving) or not queues >= {FIRST_QUEUE, "sim"}:
            self._no_gpu_since = None
            return ()
        steady = self._database.steady_clock()
        self._no_gpu_since = steady if self._no_gpu_since is None else self._no_gpu_since
        if steady - self._no_gpu_since < ALIVE_WITHIN_S:
            return ()
        now = self._database.clock()
        with self._database.writing() as connection:
            oldest = select(_row.seq, _row.id).where(waits).order_by(_row.seq).limit(_MAX_ANNOUNCED)
            rows = connection.execute(oldest.with_for_update(skip_locked=True)).all()
            begun = update(evaluations).where(_row.seq.in_([row.seq for row in rows]))
            when = {"queued_at": now, "announced_at": now, "announcements": 0}
            connection.execute(begun.values(version=_row.version + 1, **when, **_AS_AT_FIRST))
        return tuple((row.id, FIRST_QUEUE) for row in rows)

    def _stale(self) -> tuple[tuple[str, str], ...]:
        now = self._database.clock()
        # An announcement of the future was made before the clock was set back.
        old = is_queued & or_(_row.announced_at < now - STALE_S, _row.announced_at > now + STALE_S)
        query = select(_row.seq, _row.id, _row.queue, _row.announced_at, _row.announcements).where(old)
        query = query.order_by(_row.seq).limit(_MAX_ANNOUNCED)
        with self._database.reading() as connection:
            if connection.execute(query.limit(1)).first() is None:
                return ()
        with self._database.writing() as connection:
            rows = [
                row
                for row in connection.execute(query.with_for_update(skip_locked=True))
                if abs(now - row.announced_at) > STALE_S * 2 ** min(row.announcements, 2)
            ]
            again = update(evaluations).where(_row.seq.in_([row.seq for row in rows]))
            connection.execute(again.values(announced_at=now, announcements=_row.announcements + 1))
        return tuple((row.id, row.queue) for row in rows)

    def retain(self, older_than_s: float) -> int:
        """Delete evaluations that ended longer ago than this, and workers not seen and callers' own problems not used
        for as long; says how many evaluations. Raises StorageError.

        Does nothing at the first call after the time of day has jumped: a clock that is wrong for a moment must not
        cost a year of verdicts.
        """
        now, deleted = self._database.clock(), 0
        offset = now - self._database.steady_clock()
        jumped = self._offset is not None and abs(offset - self._offset) > _JUMP_S
        self._offset = offset
        if jumped:
            return 0
        with self._database.writing() as connection:
            connection.execute(delete(workers).where(workers.c.seen_at < now - older_than_s))
            forget_foreign(connection, now - older_than_s)
        old = (
            select(_row.seq)
            .where(is_done, _row.finished_at < now - older_than_s)
            .order_by(_row.seq)
            .limit(_MAX_DELETED)
        )
        while True:
            with self._database.writing() as connection:
                some: Sequence[int] = connection.execute(old.with_for_update(skip_locked=True)).scalars().all()
                connection.execute(delete(evaluations).where(_row.seq.in_(some)))
            deleted += len(some)
            if len(some) < _MAX_DELETED:
                return deleted
