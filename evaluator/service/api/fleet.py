"""The workers that live, as the API needs to know them: who would judge, and whether anyone would."""

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, get_args

from evaluator.errors import AssayError, StorageError
from evaluator.service import logs
from evaluator.service.storage.models import FIRST_QUEUE, WorkerFacts, gpu_trouble
from evaluator.service.storage.workers import WorkerRepository
from evaluator.service.workers.task import has_room

Backend = Literal["auto", "gpu", "sim"]

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

    def why_no_references(self, backend: Backend) -> str | None:
        """Why none of the workers that live and would judge can carry out a caller's reference.

        None where one can, and where none lives. Raises StorageError.
        """
        workers = self.workers()
        with_gpu = [worker for worker in workers if worker.serves_gpu] if backend != "sim" else []
        judges = with_gpu or [worker for worker in workers if "sim" in worker.queues]
        told = [worker.no_references for worker in judges]
        return told[0] if told and all(told) else None

    def why_not_ready(self) -> str | None:
        """Why an evaluation that came now would not be judged, wherever it may run; None when it would."""
        return self.lacking()["auto"]

    def lacking(self) -> Mapping[Backend, str | None]:
        """The same by the backend that it asks for."""
        reason, serving = self._unusable()
        return {backend: reason or _lacking_now(serving, backend) for backend in get_args(Backend)}

    def _unusable(self) -> tuple[str | None, Sequence[WorkerFacts]]:
        """Why nothing could be judged whoever works, and the workers that go on taking work."""
        try:
            serving = [worker for worker in self._workers.fleet() if not worker.draining]
        except AssayError as error:
            _LOG.warning("not ready", error=str(error))
            return "The database cannot be used.", ()
        # Before the workers, which cannot say that they live where nothing can be written.
        for folder in self._folders:
            if not has_room(folder):
                _LOG.warning("not ready: the disk is full", folder=str(folder))
                return "The disk is full: nothing is accepted or begun until there is room.", ()
        return "The database cannot be written." if self._is_unwritable() else None, serving

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


def _lacking_now(serving: Sequence[WorkerFacts], backend: Backend) -> str | None:
    """The same of workers of which some may have to prepare something before they take anything."""
    lacking = _lacking([worker for worker in serving if not worker.preparing], backend)
    preparing = next((worker.preparing for worker in serving if worker.preparing), None)
    if lacking is None or preparing is None:
        return lacking
    return _lacking(serving, backend) or f"No worker takes this yet. {preparing}"


def _lacking(serving: Sequence[WorkerFacts], backend: Backend) -> str | None:
    """What these workers cannot do together, of all that an evaluation for a backend needs."""
    if not serving:
        return "No worker is alive."
    queues = {queue for worker in serving for queue in worker.queues}
    if FIRST_QUEUE not in queues:
        return "No worker that compiles is alive."
    has_gpu = any(worker.serves_gpu for worker in serving)
    if backend == "sim":
        return None if "sim" in queues else "No worker that runs kernels on the simulator is alive."
    if backend == "gpu" and not has_gpu:
        return "No worker with a GPU is alive."
    if "sim" not in queues and not has_gpu:
        return "No worker that runs kernels is alive, neither on the simulator nor on a GPU."
    # What does not ask for the simulator is judged on a GPU wherever there is one.
    trouble = gpu_trouble(serving)
    return None if trouble is None else f"No GPU can be used: {trouble}"
