"""One worker process by itself."""

import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from storage_samples import empty_sqlite
from working import accept, data_dir, done, until

from common.contract import Status
from evaluator.backends.sim.backend import Simulator
from evaluator.errors import StorageError
from evaluator.pipeline.toolbox import Toolbox
from evaluator.service.api.fleet import Fleet
from evaluator.service.storage.storage import open_storage
from evaluator.service.workers import task as module
from evaluator.service.workers import worker as worker_module
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
    taking.join(60)
    assert not taking.is_alive()


def test_a_worker_that_waits_for_room_can_be_drained(storage, worker, monkeypatch):
    monkeypatch.setattr(module, "MIN_FREE_BYTES", 1 << 80)
    evaluation_id = accept(storage)
    taking = threading.Thread(target=worker.take)
    taking.start()
    worker.draining.set()
    taking.join(60)
    assert not taking.is_alive()
    assert storage.evaluations.get(evaluation_id, None).attempt == 0


def test_nothing_is_claimed_before_the_simulator_is_built(storage, worker, monkeypatch):
    may_build, build = threading.Event(), Simulator.warm_up
    monkeypatch.setattr(Simulator, "warm_up", lambda simulator: may_build.wait(60) and build(simulator))
    evaluation_id = accept(storage)
    worker.start()
    taking = threading.Thread(target=worker.take)
    taking.start()
    taking.join(0.7)
    assert storage.evaluations.get(evaluation_id, None).state == "queued"
    assert "builds the simulator" in Fleet(storage.workers).why_not_ready()
    may_build.set()
    assert done(storage, evaluation_id).verdict.status is Status.PASSED
    assert Fleet(storage.workers).why_not_ready() is None
    taking.join(60)
    worker.close()


def test_a_drain_ends_the_building(storage, tmp_path):
    toolbox = Toolbox(MachineSettings(tmp_path / "data"))  # a cache of its own, in which there is nothing
    worker = Worker(storage.evaluations, storage.leases, storage.workers, toolbox, Deaf(), ("compile", "sim"))
    starter, held = os.pipe()
    drain, begin = os.pipe()
    worker.end_with(starter, (drain,))
    worker.start()
    work = tmp_path / "data" / "work"
    until(lambda: any(work.iterdir()))
    os.write(begin, b"d")
    assert not worker.take(), "it ends at once"
    until(lambda: not any(work.iterdir()))
    worker.close()
    assert held, "while it is open this process goes on"


def test_where_the_simulator_cannot_be_built_jobs_say_why(storage, tmp_path, monkeypatch):
    monkeypatch.setattr(worker_module, "_BUILD_AGAIN_S", 0.0)
    toolbox = Toolbox(MachineSettings(tmp_path / "data"))
    toolbox.toolchain = replace(toolbox.toolchain, host_compiler=Path("/bin/false"))
    worker = Worker(storage.evaluations, storage.leases, storage.workers, toolbox, Deaf(), ("compile", "sim"))
    worker.start()
    evaluation_id = accept(storage)
    for _ in range(2):
        assert worker.take()
    assert "does not compile" in Fleet(storage.workers).why_not_ready()
    verdict = storage.evaluations.get(evaluation_id, None).verdict
    assert (verdict.status, verdict.reward) == (Status.INTERNAL_ERROR, None)
    assert "compile" in verdict.message
    worker.close()


def test_what_fails_on_a_full_disk_was_no_attempt(storage, worker, monkeypatch):
    def full(*_, **__):
        monkeypatch.setattr(module, "MIN_FREE_BYTES", 1 << 80)
        raise StorageError("No space left on the disk.")

    monkeypatch.setattr(module, "evaluate", full)
    evaluation_id = accept(storage)
    assert worker.take()
    now = storage.evaluations.get(evaluation_id, None)
    assert (now.state, now.attempt) == ("queued", 0)
