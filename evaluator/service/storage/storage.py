"""All repositories on one database, for those who put a process together."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from evaluator.service.storage.api_keys import ApiKeyRepository
from evaluator.service.storage.counters import CounterRepository
from evaluator.service.storage.database import Database
from evaluator.service.storage.evaluations import EvaluationRepository, ForeignProblemRepository
from evaluator.service.storage.leases import LeaseRepository
from evaluator.service.storage.submissions import SubmissionRepository
from evaluator.service.storage.sweeps import SweepRepository
from evaluator.service.storage.workers import WorkerRepository


@dataclass(frozen=True)
class Storage:
    """One database and its repositories. Hand on those that are needed, not this."""

    database: Database
    submissions: SubmissionRepository
    evaluations: EvaluationRepository
    leases: LeaseRepository
    sweeps: SweepRepository
    workers: WorkerRepository
    keys: ApiKeyRepository
    counters: CounterRepository
    foreign: ForeignProblemRepository


def open_storage(
    url: str, clock: Callable[[], float] = time.time, steady_clock: Callable[[], float] = time.monotonic
) -> Storage:
    """The repositories of the database at `url`, which and the clocks are those of `Database`. Raises UsageError."""
    database = Database(url, clock, steady_clock)
    workers = WorkerRepository(database)
    return Storage(
        database,
        SubmissionRepository(database),
        EvaluationRepository(database),
        LeaseRepository(database),
        SweepRepository(database, workers.fleet),
        workers,
        ApiKeyRepository(database),
        CounterRepository(database),
        ForeignProblemRepository(database),
    )
