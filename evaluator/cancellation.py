"""Whether anybody still wants what is being done: a flag that other threads can lower, and that ends running jobs."""

import contextlib
import threading
from collections.abc import Callable, Iterator


class CancelledError(Exception):
    """Nobody wants this work any more: it was stopped in the middle, and what it said so far counts for nothing."""


class CancelToken:
    """Interest in one piece of work. Safe to use from many threads; once withdrawn it does not come back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._withdrawn = threading.Event()
        self._acts: dict[object, Callable[[], None]] = {}

    @property
    def withdrawn(self) -> bool:
        """True once `withdraw` was called."""
        return self._withdrawn.is_set()

    def withdraw(self) -> None:
        """End the work: every act of `on_withdrawal` that is under way is done, in this thread."""
        with self._lock:
            self._withdrawn.set()
            acts, self._acts = list(self._acts.values()), {}
            for act in acts:
                act()

    def check(self) -> None:
        """Raises CancelledError once the interest is gone."""
        if self.withdrawn:
            raise CancelledError

    def wait(self, timeout_s: float) -> bool:
        """Wait until the interest is withdrawn, at most so long; whether it is."""
        return self._withdrawn.wait(timeout_s)

    @contextlib.contextmanager
    def on_withdrawal(self, act: Callable[[], None]) -> Iterator[None]:
        """Inside this context a withdrawal calls `act`, at once where it has happened already.

        `act` runs in the withdrawing thread, briefly and at most once; once the context is left it neither runs nor
        is still running, so that it may use what is closed after it.
        """
        forget = self.call_on_withdrawal(act)
        try:
            yield
        finally:
            forget()

    def call_on_withdrawal(self, act: Callable[[], None]) -> Callable[[], None]:
        """As `on_withdrawal`, for work that is no block of code: call what is returned when it is over."""
        key = object()
        with self._lock:
            if self.withdrawn:
                act()
            else:
                self._acts[key] = act

        def forget() -> None:
            with self._lock:
                self._acts.pop(key, None)

        return forget
