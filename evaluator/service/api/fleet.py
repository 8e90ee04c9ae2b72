"""The workers that live, as the API needs to know them: who would judge, and whether anyone would."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from evaluator.errors import AssayError, StorageError
from evaluator.service import logs
from evaluator.service.storage.models import FIRST_QUEUE, WorkerFacts, gpu_trouble
from evaluator.service.storage.workers import WorkerRepository
from evaluator.service.workers.task import has_room

_REMEMBERED_S: Final = 1.0
"""How long what was read answers those who ask next: many submissions a second ask."""

_LOG = logs.logger("fleet")


class Fleet:
    """May be used from any thread."""

    def __init__(self, workers: WorkerRepository, folders: tuple[Path, ...] = ()) -> None:
        """`folders`: of this machine, without room in which nothing can be accepted or judged."""
        self._workers, self._folders = workers, folders
        self._proving = threading.Lock()
        self._proved_s = float("-inf")
        self._unwritable = False
        self._lock = threading.Lock()
        self._known: tuple[float, tuple[WorkerFacts, ...]] | None = None

    def workers(self) -> tuple[WorkerFacts, ...]:
        """The workers that live, as of a second ago at most. Raises StorageError."""
        with self._lock:
            now_s = time.monotonic()
            if self._known is None or now_s - self._known[0] > _REMEMBERED_S:
                self._known = (now_s, self._workers.fleet())
            return self._known[1]

    def why_no_references(self, backend: Literal["auto", "gpu", "sim"]) -> str | None:
        """Why none of the workers that live and would judge can carry out a caller's reference.

        None where one can, and where none lives. Raises StorageError.
        """
        workers = self.workers()
        with_gpu = [worker for worker in workers if worker.serves_gpu] if backend != "sim" else []
        judges = with_gpu or [worker for worker in workers if "sim" in worker.queues]
        told = [worker.no_references for worker in judges]
        return told[0] if told and all(told) else None

    def why_not_ready(self) -> str | None:
        """Why an evaluation that came now would not be judged; None when it would."""
        try:
            serving = [worker for worker in self._workers.fleet() if not worker.draining]
        except AssayError as error:
            _LOG.warning("not ready", error=str(error))
            return "The database cannot be used."
        # Before the workers, which cannot say that they live where nothing can be written.
        for folder in self._folders:
            if not has_room(folder):
                _LOG.warning("not ready: the disk is full", folder=str(folder))
                return "The disk is full: nothing is accepted or begun until there is room."
        if self._is_unwritable():
            return "The database cannot be written."
        lacking = _lacking([worker for worker in serving if not worker.preparing])
        preparing = next((worker.preparing for worker in serving if worker.preparing), None)
        return f"No worker takes this yet. {preparing}" if lacking and preparing else lacking

    def _is_unwritable(self) -> bool:
        """Whether the database takes nothing new; tried at most once a second, however many ask."""
        with self._proving:
            if time.monotonic() - self._proved_s > _REMEMBERED_S:
                try:
                    self._workers.prove_writable()
                    self._unwritable = False
                except StorageError as error:
                    _LOG.warning("not ready", error=str(error))
                    self._unwritable = True
                self._proved_s = time.monotonic()
            return self._unwritable


def _lacking(serving: Sequence[WorkerFacts]) -> str | None:
    """What these workers cannot do together, of all that an evaluation needs."""
    if not serving:
        return "No worker is alive."
    queues = {queue for worker in serving for queue in worker.queues}
    if FIRST_QUEUE not in queues:
        return "No worker that compiles is alive."
    if "sim" not in queues and not any(worker.serves_gpu for worker in serving):
        return "No worker that runs kernels is alive, neither on the simulator nor on a GPU."
    # What does not ask for the simulator is judged on a GPU wherever there is one.
    trouble = gpu_trouble(serving)
    return None if trouble is None else f"No GPU can be used: {trouble}"
