"""When contexts of a GPU are made and ended: not while one of its referees times launches that take long.

While the driver makes a context (100 ms on an H200) or ends one (55 to 90 ms), the GPU gives that 0.4 ms of every
2.3 ms, so a launch of another context that takes 0.5 ms or more takes 15 to 20 % longer. Turns (`pipeline.gpu.turns`)
do not keep such work away: runners are made ahead of their jobs and end after them, also those of the referee that
times.

So there is a lock file. A runner holds it shared while its context is made or ended; a referee holds it for itself
while it times. Every wait is bounded, and a referee that holds it waits for no runner but one that it kills: killing
waits for no lock.
"""

import contextlib
import fcntl
import os
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from evaluator.backends.gpu.runner.context_lock import locked

_PATIENCE_S: Final = 1.0
"""So long a timing waits at most for contexts that are being made or ended: several at once take some 0.3 s."""


class ContextFile:
    """The lock file of one GPU. Where it cannot be had, nothing waits, as if it were not there."""

    def __init__(self, path: Path | None) -> None:
        """`path`: where all referees of the GPU find it; None for a file in memory, where there is one referee."""
        self._path = path
        self._own: int | None = None

    def opened(self, mode: int = os.O_RDONLY) -> int | None:
        """A descriptor with locks of its own, which the caller closes; None where there is none to be had."""
        try:
            return os.open(self._place(), mode | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return None

    @contextlib.contextmanager
    def without_new(self, patience_s: float = _PATIENCE_S) -> Iterator[None]:
        """While the block runs no runner makes or ends a context; those that do so already are waited for, for
        `patience_s` seconds at most. The block must not wait for a runner to be ready.
        """
        # Network file systems let only those lock a file for themselves who may write it.
        descriptor = self.opened(os.O_RDWR)
        if descriptor is None:
            yield
            return
        try:
            locked(descriptor, fcntl.LOCK_EX, patience_s)
            yield
        finally:
            # A process that was forked meanwhile has the open file too, until it runs its own program.
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def _place(self) -> Path | str:
        if self._path is not None:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return self._path
        if self._own is None:
            self._own = os.memfd_create("contexts")
            weakref.finalize(self, os.close, self._own)
        return f"/proc/self/fd/{self._own}"
