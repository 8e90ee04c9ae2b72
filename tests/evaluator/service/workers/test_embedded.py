"""The worker pool: real child processes on a real database, ended in every way that processes end."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest
import storage_samples
from working import (
    ENDLESS,
    RIGHT,
    SLOW,
    WRONG,
    accept,
    are_gone,
    data_dir,
    descendants,
    done,
    itself,
    judging,
    submission,
    until,
)

from common.contract import Status
from evaluator.service.storage import evaluation_rows
from evaluator.service.storage.evaluation_rows import MAX_ATTEMPTS
from evaluator.service.storage.storage import open_storage
from evaluator.service.workers.embedded import WorkerPool
from evaluator.service.workers.sweeper import Sweeper
from evaluator.settings import ServiceSettings


def settings_in(folder, **changes):
    settings = {"workers": 2, "lease_s": 5.0, "drain_s": 2.0, **changes}
    return ServiceSettings(data_dir(folder / "data"), f"sqlite:///{folder / 'assay.db'}", **settings)


def pool_on(storage, *more):
    return WorkerPool(storage.evaluations, storage.leases, storage.workers, *more)


def manned(storage, count, timeout_s=60):
    """The fleet, once it has so many."""
    return until(lambda: len(found := storage.workers.fleet(10)) >= count and found, timeout_s)


def left_over(settings):
    return [entry.name for entry in (settings.data_dir / "work").iterdir()]


class Running:
    """A worker pool with its sweeper, and what it told."""

    def __init__(self, folder, **changes):
        self.settings = settings_in(folder, **changes)
        self.storage = open_storage(self.settings.database_url)
        self.storage.database.upgrade()
        self.ended = []
        self.pool = pool_on(self.storage, self.settings, self.ended.append)
        self.sweeper = Sweeper(self.storage.sweeps, self.pool, interval_s=0.2)

    def __enter__(self):
        self.pool.start()
        self.sweeper.start()
        manned(self.storage, self.settings.workers)
        return self

    def __exit__(self, *_):
        self.sweeper.stop()
        if self.pool.pids:
            self.pool.stop()
        self.storage.database.close()

    def submit(self, *args, **more):
        evaluation_id = accept(self.storage, *args, **more)
        self.pool.announce(evaluation_id, "compile")
        return evaluation_id

    def pid_of(self, evaluation):
        return next(worker.pid for worker in self.storage.workers.fleet(60) if worker.id == evaluation.worker)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with Running(tmp_path_factory.mktemp("pool")) as running:
        yield running


def test_all_that_is_submitted_ends_once(running):
    wanted = [(RIGHT, Status.PASSED), (WRONG, Status.INCORRECT), ("", Status.INVALID_SUBMISSION)] * 4
    ids = [running.submit(source) for source, _ in wanted]
    ended = [done(running.storage, one) for one in ids]
    assert [one.verdict.status for one in ended] == [status for _, status in wanted]
    assert {one.attempt for one in ended} == {1}
    until(lambda: set(ids) <= set(running.ended))
    assert len(running.ended) == len(set(running.ended))
    assert left_over(running.settings) == []


def test_an_idle_worker_wakes_at_once(running):
    done(running.storage, running.submit())
    waits = []
    for _ in range(5):
        one = done(running.storage, running.submit())
        waits.append(one.started_at - one.created_at)
    assert sorted(waits)[2] < 0.2, "they look on their own only every second"


def test_the_receipts_time_is_that_of_both_stages(running, tmp_path):
    one = done(running.storage, running.submit(f"// {tmp_path}\n{RIGHT}"))
    receipt = one.verdict.receipt
    assert not one.verdict.compile.cached
    assert receipt.duration_s > one.verdict.compile.duration_s + receipt.phases_s["verify"]
    assert receipt.duration_s <= one.finished_at - one.started_at


BOMBS = [
    (Path(__file__).parents[3] / "adversarial" / f"{name}.cu").read_text()
    for name in ("template_bomb", "macro_bomb", "template_bomb")  # the constexpr one is an error at once
]


def test_compile_bombs_of_one_key_do_not_keep_a_stranger_waiting(running):
    def asked(source, tenant, problem="relu"):
        made = storage_samples.accept(running.storage, submission(source, problem), tenant).evaluation.id
        running.pool.announce(made, "compile")
        return made

    def took_s(number):
        one = done(running.storage, asked(f"// {number} {time.time()}\n{RIGHT}", "stranger"))
        assert one.verdict.status is Status.PASSED
        return one.finished_at - one.created_at

    def at_work():
        found = [running.storage.evaluations.get(one, None) for one in bombs]
        return [one for one in found if one.state == "running"]

    alone_s = took_s(0)
    bombs = [asked(f"// {time.time()}\n{source}", "neighbour", "vector_add") for source in BOMBS]
    try:
        until(lambda: len(at_work()) == 2)
        first = {one.id for one in at_work()}
        beside_s = [took_s(number) for number in range(1, 4)]
        states = [running.storage.evaluations.get(one, None) for one in bombs]
        assert all(one.state != "done" for one in states), "they are far from their limit of time"
        assert len({one.id for one in at_work()} & first) == 1, "of the two one made room, the other goes on"
        assert {one.attempt for one in states} <= {0, 1}
    finally:
        for one in bombs:
            running.storage.evaluations.drop(one, None)
        for one in bombs:
            done(running.storage, one)
    # The limit of a bomb's time would be some thirty times as long.
    assert max(beside_s) < 10 * max(alone_s, took_s(4)), (alone_s, beside_s)


def test_unannounced_work_is_found_too(running):
    assert done(running.storage, accept(running.storage)).verdict.status is Status.PASSED


def test_a_dropped_evaluation_frees_its_worker(running):
    ids = [running.submit(ENDLESS) for _ in range(2)]
    for one in ids:
        judging(running.storage, one)
    for one in ids:
        running.storage.evaluations.drop(one, None)
    assert done(running.storage, running.submit(), 5).verdict.status is Status.PASSED
    assert {done(running.storage, one).verdict.status for one in ids} == {Status.CANCELLED}
    assert left_over(running.settings) == []


def test_a_killed_worker_loses_nothing_and_leaves_nothing(running):
    evaluation_id = running.submit(ENDLESS, run_timeout_s=2)
    pid = running.pid_of(judging(running.storage, evaluation_id))
    below = descendants(pid)
    assert below, "the kernel runs in a process of its own"
    os.kill(pid, signal.SIGKILL)
    ended = done(running.storage, evaluation_id)
    assert (ended.verdict.status, ended.attempt, ended.losses) == (Status.TIMEOUT, 1, 1)
    until(lambda: are_gone(below), 15)
    fleet = until(lambda: len(found := running.storage.workers.fleet(10)) == 2 and found)
    assert pid not in {worker.pid for worker in fleet}
    until(lambda: left_over(running.settings) == [])


def test_what_kills_every_worker_is_tried_alone_and_given_up(running, monkeypatch):
    monkeypatch.setattr(evaluation_rows, "MAX_LOSSES", 1)  # ten workers take their time to start
    evaluation_id, before = running.submit(ENDLESS), -1
    for losses in range(1 + MAX_ATTEMPTS):
        until(lambda losses=losses: running.storage.evaluations.get(evaluation_id, None).losses == losses)
        one = until(lambda after=before: (now := judging(running.storage, evaluation_id)).version > after and now)
        if losses == 0:  # begun before there is a suspect, which waits for it: nothing new begins beside a suspect
            beside = judging(running.storage, running.submit(ENDLESS, run_timeout_s=2))
        os.kill(running.pid_of(one), signal.SIGKILL)
        before = one.version
    assert running.storage.evaluations.get(beside.id, None).verdict.status is Status.TIMEOUT
    ended = done(running.storage, evaluation_id)
    assert (ended.verdict.status, ended.verdict.reward) == (Status.INTERNAL_ERROR, None)
    assert done(running.storage, running.submit()).verdict.status is Status.PASSED


def test_a_frozen_worker_loses_its_lease_and_its_late_word_changes_nothing(running):
    evaluation_id = running.submit(ENDLESS, run_timeout_s=6)
    one = judging(running.storage, evaluation_id)
    pid = running.pid_of(one)
    os.kill(pid, signal.SIGSTOP)
    try:
        second = until(lambda: (now := judging(running.storage, evaluation_id)).losses == 1 and now, 30)
        assert second.worker != one.worker
    finally:
        os.kill(pid, signal.SIGCONT)
    ended = done(running.storage, evaluation_id)
    assert (ended.verdict.status, ended.worker) == (Status.TIMEOUT, second.worker)
    assert done(running.storage, running.submit()).verdict.status is Status.PASSED


def test_a_stop_lets_the_short_finish_and_gives_back_the_long(tmp_path):
    # A short one that reached a limit would not do: on a busy machine it is tried again, since it says nothing.
    with Running(tmp_path, drain_s=8.0) as running:
        # The first one builds the simulator, which takes longer than all this.
        done(running.storage, running.submit())
        judging(running.storage, long := running.submit(ENDLESS))
        judging(running.storage, short := running.submit(SLOW))
        waiting = accept(running.storage)
        processes = [itself(pid) for pid in running.pool.pids]
        below = [one for pid in running.pool.pids for one in descendants(pid)]
        started_s = time.monotonic()
        running.pool.stop()
        assert time.monotonic() - started_s < 14
        assert running.storage.evaluations.get(short, None).verdict.status is Status.PASSED
        for one in (long, waiting):
            now = running.storage.evaluations.get(one, None)
            assert (now.state, now.attempt) == ("queued", 0)
        assert running.storage.workers.fleet(60) == ()
        until(lambda: are_gone([*processes, *below]), 10)
        assert left_over(running.settings) == []


SERVER = """
import json, sys, time
from pathlib import Path
from evaluator.service.workers.embedded import WorkerPool
from evaluator.service.storage.storage import open_storage
from evaluator.settings import ServiceSettings

facts = json.loads(sys.argv[1])
settings = ServiceSettings(**{**facts, "data_dir": Path(facts["data_dir"])})
storage = open_storage(settings.database_url)
pool = WorkerPool(storage.evaluations, storage.leases, storage.workers, settings)
pool.start()
time.sleep(600)
"""


def test_a_killed_server_takes_its_workers_along_and_they_give_back(tmp_path):
    settings = settings_in(tmp_path)
    storage = open_storage(settings.database_url)
    storage.database.upgrade()
    evaluation_id = accept(storage, ENDLESS)
    facts = json.dumps({**asdict(settings), "data_dir": str(settings.data_dir)})
    server = subprocess.Popen([sys.executable, "-c", SERVER, facts])
    try:
        judging(storage, evaluation_id)
        everything = descendants(server.pid)
        assert len(everything) > 3
    finally:
        server.kill()
        server.wait()
    until(lambda: are_gone(everything), 15)
    now = storage.evaluations.get(evaluation_id, None)
    assert (now.state, now.attempt) == ("queued", 0), "handed back, not lost"
    assert storage.workers.fleet(60) == ()
    assert left_over(settings) == []
    storage.database.close()


def test_a_worker_that_cannot_start_is_tried_again_with_pauses(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_SANDBOX", "no such sandbox")
    settings = settings_in(tmp_path, workers=1)
    storage = open_storage(settings.database_url)
    storage.database.upgrade()
    pool = pool_on(storage, settings)
    started_s = time.monotonic()
    pool.start()
    seen = set()
    until(lambda: seen.update(pool.pids) or len(seen) == 3, 60)
    assert time.monotonic() - started_s > 0.2 + 0.4
    pool.stop()
    assert storage.workers.fleet(60) == ()
    storage.database.close()
