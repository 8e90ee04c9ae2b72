"""Keeping a process that may end for reasons of its own: it is started again, after pauses that grow."""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import wait
from types import FrameType
from typing import Final

from evaluator.service import logs

_SETTLED_S: Final = 10.0
"""A process that lived for so long is replaced at once; younger ones after a pause that grows."""
_LONGEST_PAUSE_S: Final = 30.0
_DRAINS: Final = (signal.SIGTERM, signal.SIGINT)
_PR_SET_PDEATHSIG: Final = 1

_LOG = logs.logger("restarting")


@dataclass
class Pauses:
    """How long to wait before a process that has ended is started again."""

    _started_s: float = 0.0
    _failures: int = 0

    def started(self) -> None:
        """It starts now."""
        self._started_s = time.monotonic()

    def next_s(self) -> float:
        """It has ended: the pause, seconds. 0 where it had lived long enough, else twice the last one."""
        lived_s = time.monotonic() - self._started_s
        self._failures = 0 if lived_s > _SETTLED_S else self._failures + 1
        return min(_LONGEST_PAUSE_S, 0.1 * 2**self._failures) if self._failures else 0.0


def kept_running(work: Callable[[], int], name: str) -> int:
    """Run `work` in a child process until that ends orderly, and start it again whenever it does not; the exit code.

    SIGTERM and SIGINT go on to the child, whose next end is the last, and 0 where they ended it before `work` could
    see them. The child is killed with this process. For the main thread alone. `name`: of the child, in the log.
    """
    told, tell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def on_signal(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(tell, bytes([number]))

    before = {number: signal.signal(number, on_signal) for number in _DRAINS}
    pauses = Pauses()
    try:
        while True:
            pauses.started()
            child = multiprocessing.get_context("fork").Process(target=_be, args=(work, os.getpid()), name=name)
            child.start()
            assert child.pid is not None
            drained = False
            while child.sentinel not in (ready := wait([child.sentinel, told])):
                if told in ready:
                    drained = True
                    for number in os.read(told, 16):
                        os.kill(child.pid, number)
            child.join()
            code = child.exitcode
            child.close()
            if code == 0 or drained:
                return 0 if code in (0, *(-number for number in _DRAINS)) else 1
            pause_s = pauses.next_s()
            _LOG.error(f"{name} has ended: started again", exit_code=code, pause_s=pause_s)
            if wait([told], pause_s):
                return 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(told)
        os.close(tell)


def _be(work: Callable[[], int], parent: int) -> None:
    """What the child does. A group of its own: Ctrl-C reaches the parent alone, which passes it on."""
    for number in _DRAINS:
        signal.signal(number, signal.SIG_DFL)
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == parent:  # else it died before this one could hear of it
        sys.exit(work())
