"""A page of memory by which the referee says "go" and a process for host code says "done".

A message through a socket wakes a process, which takes a virtual machine up to some hundred microseconds, and not
always the same: more than most kernels take. Two processes that both look at one word tell each other in about one.
The process can write anything here. It gains nothing by it: what counts is the answer in the outputs.
"""

import fcntl
import mmap
import os
import time
from collections.abc import Callable
from typing import Final

_GO, _DONE = 0, 1
_FAILED: Final = 0xFFFFFFFF
"""In the place of a number: the call failed, and a message in the channel says how."""
_AWAITS_GO_S: Final = 1.0
"""How long a process looks for the word without a pause: the referee only flushes caches before it."""
_AWAITS_DONE_S: Final = 0.05
"""How long the referee does. A call that takes longer may be off by `_PAUSE_S`, a five hundredth of it."""
_PAUSE_S: Final = 1e-4
_LOOKS: Final = 256
"""At the word between two looks at the clock and at the channel, which take a thousand times as long."""


class Handshake:
    """One side of the page. Numbers are 1 to 2**32 - 2."""

    def __init__(self, descriptor: int) -> None:
        """Map the page behind a descriptor, which stays the caller's. Raises OSError."""
        self._memory = mmap.mmap(descriptor, mmap.PAGESIZE)
        self._words = memoryview(self._memory).cast("I")

    @staticmethod
    def page() -> int:
        """A new page, as a descriptor that the caller closes. Nobody can shorten it: reading it would end a process.

        Raises OSError.
        """
        descriptor = os.memfd_create("handshake", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, mmap.PAGESIZE)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return descriptor

    def go(self, number: int) -> None:
        """The referee's word: call now."""
        self._words[_GO] = number

    def done(self, number: int) -> None:
        """The process's word: the call is over."""
        self._words[_DONE] = number

    def failed(self) -> None:
        """The process's word: the channel says what went wrong."""
        self._words[_DONE] = _FAILED

    def await_go(self, number: int, ended: Callable[[], bool]) -> bool:
        """Wait for the referee's word; whether it came before `ended` was true."""
        return self._await(_GO, number, ended, _AWAITS_GO_S)

    def await_done(self, number: int, ended: Callable[[], bool]) -> bool:
        """Wait for the process's word; whether the call is over, and not failed, before `ended` was true."""
        return self._await(_DONE, number, ended, _AWAITS_DONE_S)

    def close(self) -> None:
        """Unmap this side's page."""
        self._words.release()
        self._memory.close()

    def _await(self, word: int, number: int, ended: Callable[[], bool], spin_s: float) -> bool:
        words, spins_until_s = self._words, time.monotonic() + spin_s
        while True:
            for _ in range(_LOOKS):
                if words[word] == number:
                    return True
            if words[word] == _FAILED:
                return False
            if ended():
                # The word may have come in between.
                return words[word] == number
            if time.monotonic() > spins_until_s:
                time.sleep(_PAUSE_S)
