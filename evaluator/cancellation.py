"""Whether a piece of work was cancelled: a flag that other threads can set, and that ends running jobs."""

import contextlib
import threading
from collections.abc import Callable, Iterator


class CancelledError(Exception):
    """Work was cancelled: it was stopped in the middle, and what it said so far counts for nothing."""


class CancelToken:
    """Whether one piece of work is still wanted. Safe to use from many threads; once cancelled it stays so."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self._acts: dict[object, Callable[[], None]] = {}

    @property
    def cancelled(self) -> bool:
        """True once `cancel` was called."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """End the work: every act of `on_cancel` that is under way is done, in this thread."""
        with self._lock:
            self._cancelled.set()
            acts, self._acts = list(self._acts.values()), {}
            for act in acts:
                act()

    def check(self) -> None:
        """Raises CancelledError once it is cancelled."""
        if self.cancelled:
            raise CancelledError

    def wait(self, timeout_s: float) -> bool:
        """Wait until it is cancelled, at most so long; whether it is."""
        return self._cancelled.wait(timeout_s)

    @contextlib.contextmanager
    def on_cancel(self, act: Callable[[], None]) -> Iterator[None]:
        """Inside this context cancelling calls `act`, at once where it has happened already.

        `act` runs in the cancelling thread, briefly and at most once; once the context is left it neither runs nor
        is still running, so that it may use what is closed after it.
        """
        forget = self.call_on_cancel(act)
        try:
            yield
        finally:
            forget()

    def call_on_cancel(self, act: Callable[[], None]) -> Callable[[], None]:
        """As `on_cancel`, for work that is no block of code: call what is returned when it is over."""
        key = object()
        with self._lock:
            if self.cancelled:
                act()
            else:
                self._acts[key] = act

        def forget() -> None:
            with self._lock:
                self._acts.pop(key, None)

        return forget
