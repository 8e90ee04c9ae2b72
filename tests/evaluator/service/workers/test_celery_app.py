"""Celery's workers over a real Redis: what is announced is done once, whatever dies in between."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
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
    until,
)

from common.contract import Status
from evaluator.errors import UsageError
from evaluator.sandbox.host.work_folder import WorkFolders
from evaluator.service.storage import sweeps
from evaluator.service.storage.storage import open_storage
from evaluator.service.workers.celery_app import CeleryAnnouncer, run_workers
from evaluator.service.workers.sweeper import Sweeper
from evaluator.settings import MachineSettings, ServiceSettings


class Redis:
    """A server of one's own, in a folder with a name short enough for a unix socket; over TCP on request."""

    def __init__(self, tcp=False):
        self.folder = Path(tempfile.mkdtemp(prefix="assay-redis-"))
        self._socket = self.folder / "redis.sock"
        self._port = 0
        self.url = f"redis+socket://{self._socket}"
        if tcp:
            with socket.create_server(("127.0.0.1", 0)) as free:
                self._port = free.getsockname()[1]
            self.url = f"redis://127.0.0.1:{self._port}/0"
        self._process = None

    def start(self):
        self._socket.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [
                *("redis-server", "--bind", "127.0.0.1", "--port", str(self._port)),
                *("--unixsocket", str(self._socket), "--dir", str(self.folder), "--appendonly", "no", "--save", ""),
            ],
            stdout=subprocess.DEVNULL,
        )
        until(self._answers)

    def _answers(self):
        return self.ask("PING").startswith("+PONG")

    def ask(self, command):
        """The answer to a command, in Redis's own words; empty where it is away."""
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(self._socket))
            except OSError:
                return ""
            connection.sendall(f"{command}\r\n".encode())
            return connection.recv(100).decode().strip()

    def signal(self, number):
        self._process.send_signal(number)

    def kill(self):
        self._process.kill()
        self._process.wait()

    def remove(self):
        self.kill()
        shutil.rmtree(self.folder)


@contextlib.contextmanager
def a_redis(**more):
    if shutil.which("redis-server") is None:
        assert not os.environ.get("CI"), "CI must have redis-server"
        pytest.skip("redis-server is not here")
    server = Redis(**more)
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="module")
def redis():
    with a_redis() as server:
        yield server


class Service:
    """A database, its announcer and sweeper, and worker processes of the command."""

    def __init__(self, folder, redis):
        self.storage = open_storage(f"sqlite:///{folder / 'assay.db'}")
        self.storage.database.upgrade()
        self.data_dir = data_dir(folder / "data")
        self.announcer = CeleryAnnouncer(redis.url, away_s=0.2)
        self.sweeper = Sweeper(self.storage.sweeps, self.announcer, interval_s=0.2)
        self.sweeper.start()
        self.workers = []
        self._environment = {
            **os.environ,
            "ASSAY_DATABASE_URL": f"sqlite:///{folder / 'assay.db'}",
            "ASSAY_BROKER_URL": redis.url,
            "ASSAY_DATA_DIR": str(self.data_dir),
            "ASSAY_LEASE_S": "4",
        }

    def hire(self, queues, processes=1, drain_s=2):
        """Another worker, once all its processes are in the fleet."""
        before = len(self.storage.workers.fleet(3600))
        command = [sys.executable, "-m", "evaluator", "worker", "--queues", queues, "--workers", str(processes)]
        environment = {**self._environment, "ASSAY_DRAIN_S": str(drain_s)}
        worker = subprocess.Popen(command, env=environment, start_new_session=True)
        self.workers.append(worker)
        until(lambda: len(self.storage.workers.fleet(3600)) >= before + processes)
        return worker

    def submit(self, *args, **more):
        evaluation_id = accept(self.storage, *args, **more)
        self.announcer.announce(evaluation_id, "compile")
        return evaluation_id

    def pid_of(self, evaluation):
        return next(worker.pid for worker in self.storage.workers.fleet(3600) if worker.id == evaluation.worker)

    def left_over(self):
        return [entry.name for entry in (self.data_dir / "work").iterdir()]

    def close(self):
        for worker in self.workers:
            worker.send_signal(signal.SIGTERM)
        for worker in self.workers:
            try:
                worker.wait(30)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
        self.sweeper.stop()
        self.announcer.close()
        self.storage.database.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory, redis):
    service = Service(tmp_path_factory.mktemp("queue"), redis)
    try:
        service.hire("compile")
        service.hire("sim")
        yield service
    finally:
        service.close()


@pytest.fixture
def apart(tmp_path):
    """A service with a Redis of its own and no worker yet."""
    with a_redis() as redis:
        service = Service(tmp_path, redis)
        try:
            yield service
        finally:
            service.close()


def test_compiled_by_one_worker_and_judged_by_another(service, tmp_path):
    fresh = f"// {tmp_path}\n{RIGHT}"
    first, second = (done(service.storage, service.submit(fresh)) for _ in range(2))
    workers = {worker.id: worker.queues for worker in service.storage.workers.fleet(60)}
    for one in (first, second):
        assert (one.verdict.status, one.stage, one.attempt) == (Status.PASSED, "judge", 1)
        assert workers[one.worker] == ("sim",)
    assert (first.verdict.compile.cached, second.verdict.compile.cached) == (False, True)
    assert first.verdict.compile.duration_s > 0.1
    receipt = first.verdict.receipt
    worked_s, waited_s = receipt.duration_s, first.finished_at - first.started_at - receipt.duration_s
    assert worked_s > first.verdict.compile.duration_s + receipt.phases_s["verify"]
    assert waited_s > 0, "waiting for the second worker is no work"


def test_every_kind_of_verdict_arrives(service):
    wanted = [(RIGHT, Status.PASSED), (WRONG, Status.INCORRECT), ("not C++", Status.COMPILE_ERROR)] * 3
    ids = [service.submit(source) for source, _ in wanted]
    assert [done(service.storage, one).verdict.status for one in ids] == [status for _, status in wanted]


def test_a_message_that_comes_twice_does_nothing_twice(service):
    evaluation_id = service.submit()
    ended = done(service.storage, evaluation_id)
    for queue in ("compile", "sim", "compile"):
        service.announcer.announce(evaluation_id, queue)
    after = done(service.storage, service.submit())
    assert after.verdict.status is Status.PASSED
    assert service.storage.evaluations.get(evaluation_id, None) == ended


def test_a_dropped_evaluation_ends_at_once(service):
    evaluation_id = service.submit(ENDLESS)
    judging(service.storage, evaluation_id, "judge")
    service.storage.evaluations.drop(evaluation_id, None)
    assert done(service.storage, evaluation_id, 5).verdict.status is Status.CANCELLED
    assert service.left_over() == []


def test_a_killed_child_loses_nothing_and_leaves_nothing(service):
    evaluation_id = service.submit(ENDLESS, run_timeout_s=2)
    pid = service.pid_of(judging(service.storage, evaluation_id, "judge"))
    below = descendants(pid)
    assert below
    os.kill(pid, signal.SIGKILL)
    ended = done(service.storage, evaluation_id)
    assert (ended.verdict.status, ended.attempt, ended.losses) == (Status.TIMEOUT, 1, 1)
    until(lambda: are_gone(below))
    with contextlib.suppress(AssertionError):
        until(lambda: service.left_over() == [], 20)
    until(lambda: service.left_over() == [] or removed_by_the_next(service))


def removed_by_the_next(service):
    """Whether nothing is left over after one more job: who is killed while a folder is made leaves it to others."""
    time.sleep(WorkFolders.REAP_EVERY_S / 4)
    done(service.storage, service.submit())
    return service.left_over() == []


def test_redis_may_die_and_come_back_empty(service, redis):
    busy = service.submit(ENDLESS, run_timeout_s=1.5)
    judging(service.storage, busy, "judge")
    redis.kill()
    started_s = time.monotonic()
    unheard = service.submit()
    assert time.monotonic() - started_s < 5, "nobody waits for a Redis that is away"
    # Its worker cannot acknowledge the message, and must take others all the same.
    assert done(service.storage, busy).verdict.status is Status.TIMEOUT
    redis.start()
    heard = service.submit()
    # A message is a knock at the door: the one that waits longest is let in.
    assert done(service.storage, unheard).verdict.status is Status.PASSED
    service.announcer.announce(heard, "compile")
    assert done(service.storage, heard).verdict.status is Status.PASSED


def test_only_one_announcement_waits_for_a_redis_that_hangs():
    with a_redis() as server:
        announcer = CeleryAnnouncer(server.url, away_s=3)
        announcer.announce("ev_heard", "compile")
        server.signal(signal.SIGSTOP)
        try:
            announcer.announce("ev_unheard", "compile")
            began_s = time.monotonic()
            for number in range(100):
                announcer.announce(f"ev_{number}", "compile")
            assert time.monotonic() - began_s < 1
        finally:
            server.signal(signal.SIGCONT)

        def is_heard_again():
            announcer.announce("ev_again", "compile")
            return server.ask("LLEN compile") not in (":0", ":1", ":2")

        until(is_heard_again, 10)
        announcer.close()


def test_a_killed_worker_takes_its_children_along_and_they_give_back(apart):
    worker = apart.hire("compile,sim", 2)
    ids = [apart.submit(ENDLESS) for _ in range(2)]
    for one in ids:
        judging(apart.storage, one)
    everything = [itself(worker.pid), *descendants(worker.pid)]
    assert len(everything) > 4
    worker.kill()
    worker.wait()
    until(lambda: are_gone(everything))
    for one in ids:
        now = apart.storage.evaluations.get(one, None)
        assert (now.state, now.attempt) == ("queued", 0), "handed back, not lost"
        apart.storage.evaluations.drop(one, None)
    until(lambda: apart.left_over() == [])


def test_a_drained_worker_finishes_the_short_and_gives_back_the_long(apart):
    # A short one that reached a limit would not do: on a busy machine it is tried again, since it says nothing.
    worker = apart.hire("compile,sim", 2, drain_s=10)
    judging(apart.storage, long := apart.submit(ENDLESS))
    judging(apart.storage, short := apart.submit(SLOW))
    everything = [itself(worker.pid), *descendants(worker.pid)]
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
    assert apart.storage.evaluations.get(short, None).verdict.status is Status.PASSED
    now = apart.storage.evaluations.get(long, None)
    assert (now.state, now.attempt) == ("queued", 0)
    apart.storage.evaluations.drop(long, None)
    until(lambda: are_gone(everything))
    assert apart.left_over() == []


def test_a_stop_that_reaches_every_process_at_once_gives_everything_back(apart):
    worker = apart.hire("compile,sim", 2)
    judging(apart.storage, long := apart.submit(ENDLESS))
    everything = [itself(worker.pid), *descendants(worker.pid)]
    for pid, _ in reversed(everything):  # as a service manager does; the deepest first, which is the worst
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    assert worker.wait(60) == 0
    now = apart.storage.evaluations.get(long, None)
    assert (now.state, now.attempt, now.losses) == ("queued", 0, 0), "handed back, not lost"
    apart.storage.evaluations.drop(long, None)
    until(lambda: are_gone(everything))
    assert apart.left_over() == []


def test_a_child_that_is_told_to_end_gives_back_and_is_replaced(apart):
    apart.hire("compile,sim")
    one = judging(apart.storage, long := apart.submit(ENDLESS))
    told = apart.pid_of(one)
    os.kill(told, signal.SIGTERM)
    again = until(lambda: (now := judging(apart.storage, long)).worker != one.worker and now)
    assert (again.attempt, again.losses, apart.pid_of(again) != told) == (1, 0, True)
    apart.storage.evaluations.drop(long, None)


def test_redis_may_die_again_and_again_and_take_celery_along(tmp_path, monkeypatch):
    # What was announced to a Redis that died is announced again so much later, and not after half a minute.
    monkeypatch.setattr(sweeps, "STALE_S", 0.5)
    with a_redis(tcp=True) as redis:
        service = Service(tmp_path, redis)
        try:
            worker = service.hire("compile,sim", 2)
            wanted = {}
            for away_s in (0.0, 0.5, 0.0):
                wanted.update({service.submit(): Status.PASSED for _ in range(3)})
                busy = service.submit(ENDLESS, run_timeout_s=1)
                wanted[busy] = Status.TIMEOUT
                until(lambda: any(service.storage.evaluations.get(one, None).state == "running" for one in wanted))
                redis.kill()
                time.sleep(away_s)
                redis.start()
            # Kombu fails so now and then when its Redis has gone: Celery's own process ends for good.
            celery = descendants(worker.pid)[0]
            os.kill(celery[0], signal.SIGKILL)
            wanted[service.submit()] = Status.PASSED
            assert {one: done(service.storage, one).verdict.status for one in wanted} == wanted
            until(lambda: len(service.storage.workers.fleet(10)) == 2)
            assert worker.poll() is None
            assert descendants(worker.pid)[0] != celery
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(30) == 0
            assert service.left_over() == []
        finally:
            service.close()


def test_workers_need_a_broker_and_queues_that_there_are(tmp_path):
    machine = MachineSettings(data_dir(tmp_path / "data"))
    with pytest.raises(UsageError, match="ASSAY_BROKER_URL"):
        run_workers(machine, ServiceSettings(tmp_path, "sqlite://"), ("sim",), 1)
    with pytest.raises(UsageError, match="cannot serve these queues: simm"):
        run_workers(machine, ServiceSettings(tmp_path, "sqlite://", "redis://nowhere"), ("simm",), 1)
