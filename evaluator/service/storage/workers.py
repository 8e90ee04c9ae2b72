"""The workers: who they are, and which of them live."""

import json
import threading
from dataclasses import asdict

from sqlalchemy import delete, select, update

from evaluator.service.storage.database import Database, insert_into
from evaluator.service.storage.models import ALIVE_WITHIN_S, WorkerFacts
from evaluator.service.storage.tables import evaluations, is_running, workers

_busy_with = (
    select(evaluations.c.id)
    .where(is_running, evaluations.c.worker == workers.c.id)
    .order_by(evaluations.c.seq.desc())
    .limit(1)
    .scalar_subquery()
)
"""What a worker works on is read from the leases: a sign of life would say it seconds late."""
_ALL = select(workers, _busy_with.label("busy_with")).order_by(workers.c.id)


class WorkerRepository:
    """The workers of the fleet. It remembers their signs of life: ask the same one again."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._looking = threading.Lock()
        self._looked_at: float | None = None
        self._signs: dict[str, tuple[int, float]] = {}

    def register(self, worker: WorkerFacts) -> None:
        """A worker is there, or there again with other facts. `seen_at` becomes now. Raises StorageError."""
        facts = asdict(worker) | {"queues": json.dumps(worker.queues), "seen_at": self._database.clock(), "beat": 1}
        del facts["busy_with"]
        with self._database.writing() as connection:
            insert = insert_into(workers, connection.dialect.name).values(facts)
            fresh = {name: insert.excluded[name] for name in facts if name not in ("id", "beat")}
            connection.execute(
                insert.on_conflict_do_update(index_elements=["id"], set_=fresh | {"beat": workers.c.beat + 1})
            )

    def seen(
        self, worker_id: str, *, draining: bool = False, trouble: str | None = None, preparing: str | None = None
    ) -> bool:
        """A worker lives, with this trouble or none, and with this to be done before it takes anything, or nothing.
        False where it is not registered (any more): register again.

        Raises StorageError.
        """
        sign = update(workers).where(workers.c.id == worker_id)
        now = self._database.clock()
        with self._database.writing() as connection:
            changed = connection.execute(
                sign.values(
                    seen_at=now, beat=workers.c.beat + 1, draining=draining, trouble=trouble, preparing=preparing
                )
            )
            return changed.rowcount == 1

    def prove_writable(self) -> None:
        """Raises StorageError unless something can be written, which changes nothing."""
        one = select(workers.c.id).order_by(workers.c.id).limit(1).scalar_subquery()
        with self._database.writing() as connection:
            connection.execute(update(workers).where(workers.c.id == one).values(host=workers.c.host))

    def gone(self, worker_id: str) -> None:
        """A worker has ended. Raises StorageError."""
        with self._database.writing() as connection:
            connection.execute(delete(workers).where(workers.c.id == worker_id))

    def fleet(self, alive_within_s: float = ALIVE_WITHIN_S) -> tuple[WorkerFacts, ...]:
        """The workers that gave a sign of life within this many seconds, by id. Raises StorageError.

        Times of day are compared only at the first sight of a worker; from then on it lives as long as its signs
        keep coming by this process's steady clock, so that a time of day that jumps takes nobody's life.
        """
        with self._database.reading() as connection:
            rows = connection.execute(_ALL).all()
        alive = []
        with self._looking:
            now, today = self._database.steady_clock(), self._database.clock()
            signs: dict[str, tuple[int, float]] = {}
            for row in rows:
                beat, at = self._signs.get(row.id, (None, 0.0))
                if beat is None:
                    at = now - abs(today - row.seen_at)
                elif beat != row.beat:
                    since_last_look = now - (self._looked_at or now)
                    at = now - min(max(0.0, today - row.seen_at), since_last_look)
                signs[row.id] = (row.beat, at)
                if now - at <= alive_within_s:
                    facts = {name: value for name, value in row._mapping.items() if name != "beat"}
                    alive.append(WorkerFacts(**facts | {"queues": tuple(json.loads(row.queues))}))
            self._signs, self._looked_at = signs, now
        return tuple(alive)
