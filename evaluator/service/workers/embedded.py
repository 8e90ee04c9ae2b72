"""The workers inside a server: child processes that claim from the store, woken by a pipe, replaced when they die.

server ── one pipe, a byte for each announcement ──> whichever child is idle (its stdin)
       <── a line for each lease taken and left ──── each child (its stdout)
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from evaluator.errors import AssayError
from evaluator.python_command import own_python
from evaluator.service import logs
from evaluator.service.storage.evaluations import EvaluationRepository
from evaluator.service.storage.leases import LeaseRepository
from evaluator.service.storage.models import Lease
from evaluator.service.storage.workers import WorkerRepository
from evaluator.service.workers.supervisor import Pauses
from evaluator.settings import ServiceSettings

_END_S: Final = 15.0
"""How long a child may take to end, beyond the grace for its work, before it is killed."""

_LOG = logs.logger("crew")


@dataclass
class _WorkerSlot:
    """One place of the pool, and the process that has it now."""

    process: subprocess.Popen[bytes] | None = None
    pauses: Pauses = field(default_factory=Pauses)
    start_again_s: float = 0.0
    unread: bytearray = field(default_factory=bytearray)
    worker: str | None = None
    """Its id in the fleet, once it has said so."""
    took: dict[str, Any] | None = None
    """The lease that the process works on."""


class WorkerPool:
    """The embedded workers. It is an `Announcer`: what is announced wakes one of them."""

    def __init__(
        self,
        evaluations: EvaluationRepository,
        leases: LeaseRepository,
        workers: WorkerRepository,
        settings: ServiceSettings,
        ended: Callable[[str], None] = lambda evaluation_id: None,
    ) -> None:
        """`ended` gets the id of each evaluation that a worker has let go of, in a thread of the pool's."""
        self._evaluations, self._leases, self._workers = evaluations, leases, workers
        self._settings, self._ended = settings, ended
        self._seats = [_WorkerSlot() for _ in range(settings.workers)]
        self._stopping = threading.Event()
        self._wake_lock = threading.Lock()
        self._wake_reading, self._wake = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._wake, False)
        self._stop_reading, self._stop = os.pipe2(os.O_CLOEXEC)
        # One thread starts all children: a child may ask to be ended with the thread that started it.
        self._thread = threading.Thread(target=self._supervise, name="crew", daemon=True)

    def start(self) -> None:
        """Start the children; returns before they are ready (the fleet's list says when they are)."""
        self._thread.start()

    def announce(self, evaluation_id: str, queue: str) -> None:
        """Wake an idle worker."""
        with (
            self._wake_lock,
            contextlib.suppress(OSError),
        ):  # full: they are all awake; closed: they look on their own
            if self._wake >= 0:
                os.write(self._wake, b"w")

    def stop(self) -> None:
        """Drain: let every child finish or give back what it has, within the grace, and end them all."""
        self._stopping.set()
        os.write(self._stop, b"s")
        self._thread.join()
        with self._wake_lock:
            for descriptor in (self._wake, self._wake_reading, self._stop, self._stop_reading):
                os.close(descriptor)
            self._wake = -1

    @property
    def pids(self) -> tuple[int, ...]:
        """The children that run now."""
        processes = [seat.process for seat in self._seats]
        return tuple(process.pid for process in processes if process is not None)

    # -- supervision, in one thread --

    def _supervise(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._stop_reading, selectors.EVENT_READ)
            while not self._stopping.is_set():
                now_s = time.monotonic()
                for seat in self._seats:
                    if seat.process is None and now_s >= seat.start_again_s:
                        self._start(seat, selector)
                self._listen(selector, self._pause_s())
            for seat in self._seats:
                if seat.process is not None:
                    seat.process.send_signal(signal.SIGTERM)
            until_s = time.monotonic() + self._settings.drain_s + _END_S
            selector.unregister(self._stop_reading)
            while any(seat.process for seat in self._seats):
                if time.monotonic() > until_s:
                    for seat in self._seats:
                        if seat.process is not None:
                            _LOG.error("a worker did not end in time: killed", pid=seat.process.pid)
                            seat.process.kill()
                self._listen(selector, 1.0)

    def _pause_s(self) -> float | None:
        waiting = [seat.start_again_s for seat in self._seats if seat.process is None]
        return max(0.0, min(waiting) - time.monotonic()) if waiting else None

    def _start(self, seat: _WorkerSlot, selector: selectors.BaseSelector) -> None:
        seat.pauses.started()
        try:
            seat.process = subprocess.Popen(
                own_python("evaluator", "worker", "--embedded"),
                stdin=self._wake_reading,
                stdout=subprocess.PIPE,
                env=self._environment(),
                start_new_session=True,  # Ctrl-C is the server's; it drains its workers
            )
        except OSError as error:
            _LOG.error("a worker could not be started", error=str(error))
            self._postpone(seat)
            return
        assert seat.process.stdout is not None
        os.set_blocking(seat.process.stdout.fileno(), False)
        selector.register(seat.process.stdout, selectors.EVENT_READ, seat)

    def _environment(self) -> dict[str, str]:
        settings = self._settings
        # So many workers share the processors: none needs a thread for each of them.
        threads = str(max(1, (os.cpu_count() or 1) // max(1, settings.workers)))
        own = {
            "ASSAY_DATABASE_URL": settings.database_url,
            "ASSAY_DATA_DIR": str(settings.data_dir),
            "ASSAY_LEASE_S": f"{settings.lease_s:.0f}",
            "ASSAY_DRAIN_S": f"{settings.drain_s:.0f}",
        }
        inherited = {name: value for name, value in os.environ.items() if name != "ASSAY_SECRET"}
        return {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, **inherited, **own}

    def _listen(self, selector: selectors.BaseSelector, timeout_s: float | None) -> None:
        for key, _ in selector.select(timeout_s):
            seat: _WorkerSlot | None = key.data
            if seat is None:
                continue
            data = os.read(key.fd, 1 << 16)
            if data:
                self._hear(seat, data)
                continue
            selector.unregister(key.fileobj)
            self._bury(seat)

    def _hear(self, seat: _WorkerSlot, data: bytes) -> None:
        seat.unread += data
        *lines, rest = seat.unread.split(b"\n")
        seat.unread = rest
        for line in lines:
            news = json.loads(line)
            if "took" in news:
                seat.took = news["took"]
            elif "worker" in news:
                seat.worker = news["worker"]
            elif "left" in news:
                seat.took = None
                self._ended(news["left"])

    def _bury(self, seat: _WorkerSlot) -> None:
        """A child has ended: hand on what it had."""
        process, worker, took = seat.process, seat.worker, seat.took
        assert process is not None
        assert process.stdout is not None
        process.stdout.close()
        code = process.wait()
        seat.process, seat.worker, seat.took, seat.unread = None, None, None, bytearray()
        if not self._stopping.is_set():
            _LOG.error("a worker has ended", pid=process.pid, exit_code=code, had=took and took["id"])
        self._postpone(seat)
        try:
            if worker is not None:
                self._workers.gone(worker)
            if took is not None:
                self._hand_on(took)
        except AssayError as error:
            _LOG.warning("the sweeper has to hand on what a worker had", error=str(error))

    def _postpone(self, seat: _WorkerSlot) -> None:
        seat.start_again_s = time.monotonic() + seat.pauses.next_s()

    def _hand_on(self, took: dict[str, Any]) -> None:
        """Let another have, at once, what a dead child had."""
        stored = self._evaluations.get(took["id"], None)
        if stored is None or stored.state != "running":
            return
        lease = Lease(
            evaluation_id=stored.id,
            token=took["token"],
            attempt=took["attempt"],
            worker=stored.worker or "",
            submission=stored.submission,
            stage=stored.stage,
            queue=stored.queue,
            compiled_s=None,
            request_id=stored.request_id,
            tenant=stored.tenant,
        )
        if self._leases.lose(lease):
            self.announce(stored.id, stored.queue)
        self._ended(stored.id)
