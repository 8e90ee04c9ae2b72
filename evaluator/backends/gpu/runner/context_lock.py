"""A runner's hold on the file that its GPU's contexts are made and ended under (`contexts.ContextFile`).

A lock of flock(2) belongs to an open file, and the zygote shares one with each runner. So what the runner has locked
stays locked until the zygote has heard of its end: by then the driver has ended the context, whatever the order in
which the kernel closed the runner's descriptors.
"""

import contextlib
import fcntl
import os
import time
from typing import Final

_POLL_S: Final = 0.003
_PATIENCE_S: Final = 5.0
"""So long a context waits for a timing at most. A job waits for its turn first, and so for no timing here: it is
runners that were ordered ahead, or have served, that wait."""


def locked(descriptor: int, kind: int, patience_s: float) -> bool:
    """Whether the lock `kind` (`fcntl.LOCK_SH` or `LOCK_EX`) could be had within `patience_s` seconds."""
    until_s = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until_s:
                return False
            time.sleep(_POLL_S)
        except OSError:  # a file system without locks: as where there is no file
            return False
        else:
            return True


class ContextLock:
    """One runner's share of the lock: held while its context is made or ended. Nothing here raises."""

    def __init__(self, descriptor: int | None) -> None:
        """`descriptor`: of the file, opened for this runner alone; None where there is none, so nothing waits."""
        self._descriptor = descriptor

    def enter(self, patience_s: float = _PATIENCE_S) -> None:
        """Wait until nobody times long launches, and hold such timings up; after `patience_s` seconds, go on."""
        if self._descriptor is not None:
            locked(self._descriptor, fcntl.LOCK_SH, patience_s)

    def leave(self) -> None:
        """Let others time; in the runner and in the zygote it is the same lock."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give up this process's descriptor; what is locked stays so where another process has one of it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
