"""One worker process by itself."""

import threading
import time

import pytest
from storage_samples import empty_sqlite
from working import accept, data_dir, done

from common.contract import Status
from evaluator.errors import StorageError
from evaluator.pipeline.toolbox import Toolbox
from evaluator.service.storage.storage import open_storage
from evaluator.service.workers import task as module
from evaluator.service.workers.worker import Worker
from evaluator.settings import MachineSettings


class Deaf:
    """An announcer that nobody needs."""

    def announce(self, evaluation_id, queue):
        pass


@pytest.fixture
def storage(tmp_path):
    storage = open_storage(empty_sqlite(tmp_path / "assay.db"))
    yield storage
    storage.database.close()


@pytest.fixture
def worker(storage, tmp_path):
    toolbox = Toolbox(MachineSettings(data_dir(tmp_path / "data")))
    return Worker(storage.evaluations, storage.leases, storage.workers, toolbox, Deaf(), ("compile", "sim"))


def test_nothing_is_claimed_while_the_disk_is_full(storage, worker, monkeypatch):
    monkeypatch.setattr(module, "MIN_FREE_BYTES", 1 << 80)
    evaluation_id = accept(storage)
    taking = threading.Thread(target=worker.take)
    taking.start()
    time.sleep(0.7)
    assert storage.evaluations.get(evaluation_id, None).state == "queued"
    monkeypatch.setattr(module, "MIN_FREE_BYTES", 1)
    assert done(storage, evaluation_id).verdict.status is Status.PASSED
    taking.join(10)
    assert not taking.is_alive()


def test_a_worker_that_waits_for_room_can_be_drained(storage, worker, monkeypatch):
    monkeypatch.setattr(module, "MIN_FREE_BYTES", 1 << 80)
    evaluation_id = accept(storage)
    taking = threading.Thread(target=worker.take)
    taking.start()
    worker.draining.set()
    taking.join(5)
    assert not taking.is_alive()
    assert storage.evaluations.get(evaluation_id, None).attempt == 0


def test_what_fails_on_a_full_disk_was_no_attempt(storage, worker, monkeypatch):
    def full(*_, **__):
        monkeypatch.setattr(module, "MIN_FREE_BYTES", 1 << 80)
        raise StorageError("No space left on the disk.")

    monkeypatch.setattr(module, "evaluate", full)
    evaluation_id = accept(storage)
    assert worker.take()
    now = storage.evaluations.get(evaluation_id, None)
    assert (now.state, now.attempt) == ("queued", 0)
