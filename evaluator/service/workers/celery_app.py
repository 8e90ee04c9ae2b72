"""The queue for workers on other machines: Celery over Redis.

A message only wakes a worker: the one that gets it claims from the store what is next in that queue, until nothing
is left for it there. There are as many messages as evaluations, so none waits, the store stays fair between tenants,
and a message that comes twice finds nothing left to do. What a worker had to leave for others is taken by the
tenant's other workers as soon as they are free. A message that is lost is sent again by the sweeper. Nothing but an
id is in it.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

from celery import Celery, Task, signals  # type: ignore[import-untyped]
from celery.exceptions import OperationalError  # type: ignore[import-untyped]

from evaluator.errors import InfrastructureError, UsageError
from evaluator.pipeline.toolbox import Toolbox
from evaluator.sandbox.host.work_folder import WorkFolders
from evaluator.service import logs
from evaluator.service.storage.storage import open_storage
from evaluator.service.workers.supervisor import kept_running
from evaluator.service.workers.sweeper import Sweeper
from evaluator.service.workers.worker import Worker, look_around
from evaluator.settings import MachineSettings, ServiceSettings

VISIBILITY_TIMEOUT_S: Final = 3600
"""After so long Redis offers a message again that nobody has acknowledged: longer than any job."""

_MOST_FOR_A_MESSAGE: Final = 16
"""Evaluations that a worker takes for one message: at the limits of a job still well within VISIBILITY_TIMEOUT_S."""
_PR_SET_PDEATHSIG: Final = 1
_ANSWER_S: Final = 2.0
_READY_WITHIN_S: Final = 120.0

_LOG = logs.logger("queue")


def celery_app(broker_url: str, answer_s: float = 30.0) -> Celery:
    """The application. `answer_s`: how long Redis may take to answer before the connection counts as dead."""
    app = Celery("assay", broker=broker_url, set_as_current=False)
    app.conf.update(
        # The store is the truth: no result is kept anywhere else.
        result_backend=None,
        task_ignore_result=True,
        task_acks_late=True,
        worker_prefetch_multiplier=1,
        # What a worker had when it died is found by the sweeper, which counts the attempts; Redis would not.
        task_reject_on_worker_lost=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_transport_options={
            "visibility_timeout": VISIBILITY_TIMEOUT_S,
            "socket_connect_timeout": _ANSWER_S,
            "socket_timeout": answer_s,
            "health_check_interval": 10,
        },
        task_serializer="json",
        accept_content=["json"],
        # A worker that is busy does not listen for messages. What listens for it is remote control: without it, a
        # worker whose Redis dies meanwhile cannot acknowledge, never notices why, and takes no message again.
        worker_enable_remote_control=True,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_proc_alive_timeout=_READY_WITHIN_S,
    )
    return app


def why_unreachable(broker_url: str) -> str | None:
    """Why Redis cannot be used at this address, in its own words, without the password; None where it can."""
    try:
        with celery_app(broker_url, _ANSWER_S).connection_for_write(connect_timeout=_ANSWER_S) as connection:
            connection.ensure_connection(max_retries=1, timeout=_ANSWER_S)
    except Exception as error:  # of Celery, Kombu, Redis and the system, or a name that is no address
        return str(error) or type(error).__name__
    return None


class CeleryAnnouncer:
    """Announces over Redis. Safe to use from many threads.

    While Redis does not answer, one announcement in `away_s` seconds finds that out, and takes its time; all others
    stay unsaid at once, so that neither a caller nor a sweep waits for each of them.
    """

    def __init__(self, broker_url: str, away_s: float = 5.0) -> None:
        self._away_s = away_s
        self._app = celery_app(broker_url, _ANSWER_S)
        self._lock = threading.Lock()
        self._away_until_s: float | None = None
        """Until when nobody tries; None while Redis answers."""

    def announce(self, evaluation_id: str, queue: str) -> None:
        """Send a message; while Redis cannot be reached it stays unsaid, and the sweeper says it later."""
        if not self._may_try():
            return
        task = "assay.compile" if queue == "compile" else "assay.judge"
        try:
            self._app.send_task(task, args=[evaluation_id], queue=queue, retry=False, ignore_result=True)
        except (OperationalError, OSError) as error:
            self._away_until_s = time.monotonic() + self._away_s
            _LOG.warning("Redis cannot be reached", evaluation_id=evaluation_id, queue=queue, error=str(error))
        else:
            self._away_until_s = None

    def _may_try(self) -> bool:
        with self._lock:
            now_s = time.monotonic()
            if self._away_until_s is None:
                return True
            if now_s < self._away_until_s:
                return False
            self._away_until_s = now_s + self._away_s
            return True

    def close(self) -> None:
        """Let the connections go."""
        self._app.close()


def run_workers(machine: MachineSettings, settings: ServiceSettings, queues: tuple[str, ...], processes: int) -> int:
    """Serve `queues` with so many processes until SIGTERM or SIGINT, which drain; the exit code.

    Celery's worker is a child of this process, which starts it again when it ends without having been told to.
    Raises UsageError without a broker, InfrastructureError where this machine cannot serve these queues.
    """
    if not settings.broker_url:
        raise UsageError(
            "Workers of their own need Redis, and ASSAY_BROKER_URL is not set.",
            "Set it, for example to redis://:PASSWORD@localhost/0, and ASSAY_DATABASE_URL to the server's database; "
            "without Redis, `assay serve` brings its own workers.",
        )
    logs.configure()
    # Before anything is claimed: a machine that cannot grade says so here, once.
    look_around(Toolbox(machine), queues, "")
    try:
        with _temporary_folder(machine.data_dir / "temporary"):
            # There are ways to lose Redis that end Celery for good: it fails to give back what it cannot acknowledge.
            return kept_running(lambda: _serve(machine, settings, queues, processes), "the Celery worker")
    finally:
        Toolbox(machine).release_referees()


@contextlib.contextmanager
def _temporary_folder(root: Path) -> Iterator[None]:
    """Temporary files go where the next worker finds and removes what a killed one has left: Celery makes some."""
    folder, held = WorkFolders(root).create()
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def _serve(machine: MachineSettings, settings: ServiceSettings, queues: tuple[str, ...], processes: int) -> int:
    app = celery_app(settings.broker_url)
    lifeline, hold = os.pipe2(os.O_CLOEXEC)
    seat: list[Worker] = []
    bells: list[int] = []

    def on_start(**_: Any) -> None:  # in each child, after the fork
        os.close(hold)
        # Celery has the kernel kill its children with it; these see the pipe close, and give back what they have.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, 0)
        told, tell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        bells.append(tell)
        seat.append(_start_worker(machine, settings, queues, lifeline, told))

    def on_end(**_: Any) -> None:
        for worker in seat:
            worker.close()

    def on_shutdown(**_: Any) -> None:  # in the parent: its children see this, and drain
        with contextlib.suppress(OSError):
            os.write(hold, b"d")

    def on_signal(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(bells[0], b"d")

    def take(task: Task, evaluation_id: str) -> None:
        if not seat:
            raise InfrastructureError("This worker process could not be set up; its log says why.")
        # A service manager sends SIGTERM to every process at once, and Celery would have a child die of it: what it
        # has goes back instead. Here, since Celery sets the signals after `on_start`.
        signal.signal(signal.SIGTERM, on_signal)
        for _ in range(_MOST_FOR_A_MESSAGE):
            if not seat[0].take((str(task.request.delivery_info["routing_key"]),)):
                return

    for name in ("assay.compile", "assay.judge"):
        app.task(take, name=name, bind=True)
    signals.worker_process_init.connect(on_start, weak=False)
    signals.worker_process_shutdown.connect(on_end, weak=False)
    signals.worker_shutting_down.connect(on_shutdown, weak=False)
    return _run(app, queues, processes)


def _start_worker(
    machine: MachineSettings, settings: ServiceSettings, queues: tuple[str, ...], lifeline: int, told: int
) -> Worker:
    """The worker of this process, and a sweeper beside it. It ends with the process that holds `lifeline`, and, once
    there is something to read from `told`, as soon as it has nothing to do.
    """
    storage, announcer = open_storage(settings.database_url), CeleryAnnouncer(settings.broker_url)
    worker = Worker(
        storage.evaluations,
        storage.leases,
        storage.workers,
        Toolbox(machine),
        announcer,
        queues,
        lease_s=settings.lease_s,
        grace_s=settings.drain_s,
    )
    worker.end_with(lifeline, (lifeline,), told)
    worker.start()
    Sweeper(storage.sweeps, announcer).start()
    return worker


def _run(app: Celery, queues: tuple[str, ...], processes: int) -> int:
    """Celery's own worker, until it ends; its exit code."""
    worker = app.Worker(
        hostname=f"assay-{os.getpid()}@{socket.gethostname()}",
        queues=list(queues),
        concurrency=processes,
        pool="prefork",
        optimization="fair",
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        loglevel="WARNING",
        quiet=True,
    )
    worker.start()
    return int(worker.exitcode or 0)
