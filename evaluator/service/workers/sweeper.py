"""The sweeper: a thread that ends lost leases, announces what nobody has heard of, and deletes what is old."""

import random
import threading
import time
from typing import Final

from evaluator.errors import StorageError
from evaluator.service import logs
from evaluator.service.storage.sweeps import SweepRepository
from evaluator.service.workers.task import Announcer

_RETAIN_EVERY_S: Final = 3600.0

_LOG = logs.logger("sweeper")


class Sweeper:
    """Sweeps every `interval_s`. Several may run against one database: what one has done, the others find done."""

    def __init__(
        self, sweeps: SweepRepository, announcer: Announcer, interval_s: float = 1.0, retain_s: float | None = None
    ) -> None:
        """`retain_s`: how long evaluations are kept after their end, seconds; None never deletes them."""
        self._sweeps, self._announcer = sweeps, announcer
        self._interval_s, self._retain_s = interval_s, retain_s
        self._retained_s = float("-inf")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweeper", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, after the sweep that is under way."""
        self._over.set()
        self._thread.join()

    def sweep(self) -> None:
        """One sweep, now. Raises StorageError."""
        swept = self._sweeps.sweep()
        for evaluation_id in swept.dead:
            _LOG.error("lost too often: given up", evaluation_id=evaluation_id)
        for evaluation_id, queue in swept.requeued:
            _LOG.warning("lost by its worker: to be tried again", evaluation_id=evaluation_id, queue=queue)
        for evaluation_id, _ in swept.rerouted:
            _LOG.warning("no worker with a GPU is left: to be judged elsewhere", evaluation_id=evaluation_id)
        for evaluation_id, queue in (*swept.requeued, *swept.rerouted, *swept.stale_announcements):
            self._announcer.announce(evaluation_id, queue)
        if self._retain_s is not None and time.monotonic() - self._retained_s > _RETAIN_EVERY_S:
            self._retained_s = time.monotonic()
            deleted = self._sweeps.retain(self._retain_s)
            if deleted:
                _LOG.info("old evaluations deleted", count=deleted)

    def _run(self) -> None:
        # Many sweepers do not sweep in step.
        while not self._over.wait(self._interval_s * random.uniform(0.75, 1.25)):
            try:
                self.sweep()
            except StorageError as fault:
                _LOG.warning("the store cannot be swept", error=str(fault))
            except Exception:
                _LOG.exception("a sweep failed")
