"""The sweeper: what it hears from the database it passes on, and no failure ends it."""

import time

import pytest
import sample_verdicts
from storage_samples import empty_sqlite
from working import accept, until

from evaluator.errors import StorageError
from evaluator.service.storage.storage import open_storage
from evaluator.service.storage.sweeps import SweepRepository
from evaluator.service.workers.sweeper import Sweeper


class Ear:
    def __init__(self):
        self.heard = []

    def announce(self, evaluation_id, queue):
        self.heard.append((evaluation_id, queue))


@pytest.fixture
def storage(tmp_path, clock):
    storage = open_storage(empty_sqlite(tmp_path / "assay.db"), lambda: clock.day, lambda: clock.steady)
    yield storage
    storage.database.close()


def test_lost_and_unheard_evaluations_are_announced(storage, clock):
    lost, unheard = accept(storage), accept(storage)
    assert storage.leases.claim(["compile"], "w", 4).evaluation_id == lost
    ear = Ear()
    sweeper = Sweeper(storage.sweeps, ear)
    for _ in range(8):
        sweeper.sweep()
        clock.pass_s(1)
    assert ear.heard == [(lost, "compile")]
    clock.pass_s(60)
    sweeper.sweep()
    assert sorted(ear.heard[1:]) == sorted([(lost, "compile"), (unheard, "compile")])


def test_old_evaluations_are_deleted_once_in_an_hour_at_most(storage, clock):
    def ended():
        evaluation_id = accept(storage)
        lease = storage.leases.claim(["compile"], "w", 60)
        storage.leases.finish(lease, sample_verdicts.passed(), {})
        return evaluation_id

    first = ended()
    clock.pass_s(100)
    sweeper = Sweeper(storage.sweeps, Ear(), retain_s=60)
    sweeper.sweep()
    assert storage.evaluations.get(first, None) is None
    second = ended()
    clock.pass_s(100)
    sweeper.sweep()
    assert storage.evaluations.get(second, None) is not None


def test_a_store_that_is_away_is_swept_when_it_is_back(storage, monkeypatch):
    sweep, calls = SweepRepository.sweep, []

    def away_at_first(self):
        calls.append(time.monotonic())
        if len(calls) < 3:
            raise StorageError("away") if len(calls) == 1 else KeyError("a mistake")
        return sweep(self)

    monkeypatch.setattr(SweepRepository, "sweep", away_at_first)
    sweeper = Sweeper(storage.sweeps, Ear(), interval_s=0.01)
    sweeper.start()
    until(lambda: len(calls) > 4)
    sweeper.stop()
    after = len(calls)
    time.sleep(0.05)
    assert len(calls) == after
