"""Counters and histograms of everything that ever happened, in the same transactions as what they count."""

import bisect
import json
import math
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, TypeAlias

from sqlalchemy import Connection, func, select

from evaluator.service.storage.database import Database, insert_into
from evaluator.service.storage.models import Tally
from evaluator.service.storage.tables import tallies

ACCEPTED = "assay_evaluations_accepted_total"
"""By `answer`: created, reused (a verdict that exists), repeated (an Idempotency-Key that was used)."""
FINISHED = "assay_evaluations_finished_total"
"""By `status` and `backend`."""
REQUEUED = "assay_evaluations_requeued_total"
"""By `reason`: lost (its worker or its processes were ended from outside), handed_back (a worker drained), failed
(our own fault, tried again)."""
DEAD_LETTERS = "assay_dead_letters_total"
"""Evaluations that were lost too often, at last alone."""
TRIED_ALONE = "assay_tried_alone_total"
"""Attempts with nothing else beside them, of evaluations that were lost often."""
COMPILATIONS = "assay_compilations_total"
"""By `cached`: true or false."""
PHASE = "assay_phase_seconds"
"""By `phase`: time of one phase of one evaluation."""
SANDBOX_START = "assay_sandbox_start_seconds"
WAITING = "assay_waiting_seconds"
"""From acceptance to the first claim."""
TURNAROUND = "assay_turnaround_seconds"
"""From acceptance to the verdict."""

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_BUCKETS = (*(str(bound) for bound in BOUNDS_S), "+Inf")
_SHARDS = 16

Event: TypeAlias = tuple[str, Mapping[str, str], float | None]
"""Name and labels; seconds where it is an observation of a histogram, None where it counts one up."""


class CounterRepository:
    """Reads what was counted; `count_events` counts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def tallies(self) -> tuple[Tally, ...]:
        """All counters and histograms, for Prometheus. They only grow. Raises StorageError."""
        row = tallies.c
        sums = func.sum(row.count).label("count"), func.sum(row.total).label("total")
        query = select(row.name, row.labels, row.le, *sums).group_by(row.name, row.labels, row.le)
        counters: list[Tally] = []
        histograms: dict[tuple[str, str], dict[str, tuple[int, float]]] = defaultdict(dict)
        with self._database.reading() as connection:
            for name, labels, le, count, total in connection.execute(query.order_by(row.name, row.labels)):
                if le:
                    histograms[name, labels][le] = (int(count), float(total))
                else:
                    counters.append(Tally(name, json.loads(labels), float(count)))
        return (
            *counters,
            *(t for (name, labels), rows in histograms.items() for t in _histogram(name, labels, rows)),
        )


def count_events(connection: Connection, events: Iterable[Event]) -> None:
    """Add the events up within the caller's transaction: they count where what they count was written.

    In one order of rows, so that two who count at once cannot lock each other out.
    """
    added: dict[tuple[str, str, str], tuple[int, float]] = {}
    for name, labels, seconds in events:
        if seconds is not None and not math.isfinite(seconds):
            continue
        # A clock that was set back makes no negative time.
        length = 0.0 if seconds is None else max(0.0, seconds)
        le = "" if seconds is None else _BUCKETS[bisect.bisect_left(BOUNDS_S, length)]
        place = (name, json.dumps(dict(labels), sort_keys=True), le)
        count, total = added.get(place, (0, 0.0))
        added[place] = (count + 1, total + length)
    if not added:
        return
    shard = random.randrange(_SHARDS)
    connection.execute(
        _add(connection.dialect.name),
        [
            {"name": name, "labels": labels, "le": le, "shard": shard, "count": count, "total": total}
            for (name, labels, le), (count, total) in sorted(added.items())
        ],
    )


@cache
def _add(dialect: str) -> Any:
    insert = insert_into(tallies, dialect)
    more = {"count": tallies.c.count + insert.excluded.count, "total": tallies.c.total + insert.excluded.total}
    return insert.on_conflict_do_update(index_elements=list(tallies.primary_key), set_=more)


def _histogram(name: str, labels: str, rows: Mapping[str, tuple[int, float]]) -> Iterable[Tally]:
    below = 0
    for le in _BUCKETS:
        below += rows.get(le, (0, 0.0))[0]
        yield Tally(name + "_bucket", {**json.loads(labels), "le": le}, float(below))
    yield Tally(name + "_sum", json.loads(labels), sum(total for _, total in rows.values()))
    yield Tally(name + "_count", json.loads(labels), float(below))
