"""A gate on a stream: the device waits until the host has queued all that is to be timed.

Otherwise a device outruns a host that queues slowly, and waits for it between two events: several launches, or
PyTorch's operators, which take the host 10 us each on an idle machine and many times that beside compilers.

The kernel reads a word of the host's until that has a number that was drawn for the turn (CUDA Driver API, section
6.13, cuMemHostAlloc), or for a time at most: otherwise a launch that waits for the device itself would never return.
"""

import os
import struct
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from evaluator.backends.gpu.runner.runner import now_us

HEADER: Final = b"""
.version 6.4
.target sm_70
.address_size 64
"""
HOLD: Final = b"""
.visible .entry hold(.param .align 8 .b8 wanted[24])
{
    .reg .pred %p;
    .reg .b32 %r<3>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [wanted];
    ld.param.u32 %r1, [wanted+8];
    ld.param.u64 %rd2, [wanted+16];
    mov.u64 %rd3, %globaltimer;
again:
    ld.volatile.global.u32 %r2, [%rd1];
    setp.eq.u32 %p, %r2, %r1;
    @%p bra done;
    mov.u64 %rd4, %globaltimer;
    sub.u64 %rd4, %rd4, %rd3;
    setp.lt.u64 %p, %rd4, %rd2;
    @%p bra again;
done:
    ret;
}
"""
"""One thread. Address of the word (8 bytes), the number that opens (4, and 4 unused), nanoseconds at most (8)."""
HOLD_BYTES: Final = 24
MOST_US: Final = 2000.0
"""Queueing the launches of a plan, or the operators of a baseline, takes a host some 0.3 ms. One that takes longer
was not running, or waits for the device."""
_QUEUED_MOST: Final = 64
"""Steps that the device waits for: it is behind the host then, and a launch takes a host some 4 us. The driver's
queue is full at a thousand."""
_QUEUEING_MOST_US: Final = 600.0
"""So long the device waits for fewer: launches in clusters take a host three times as long, and beside compilers all
of them do. Where it waits, the referee's clock runs and the runner's does not, which is not believed from 1,000 us on
(`stages.time.statistics`)."""
_FEW_STEPS: Final = 8
"""They are waited for in any case: after a host that was not running the device would else wait between events."""
_PACKED: Final = struct.Struct("<QI4xQ")


class GateWord(Protocol):
    """A word of the host's memory that the device reads as it changes (`driver.HostWord`)."""

    pointer: int
    """Where the device has it."""

    def set(self, value: int) -> None:
        """Write 32 bits."""


class StreamGate:
    """The gate of one stream."""

    def __init__(self, word: GateWord, launch: Callable[[bytes], None]) -> None:
        """`launch` queues `hold` with these parameters, as one thread, on the stream."""
        self._word, self._launch = word, launch
        self._turn = 0
        self._closed_us = 0.0
        self.was_late = False
        """Whether the device went on before the gate was last opened."""

    def close(self) -> None:
        """What is queued from now on begins when the gate opens."""
        # Drawn once nothing runs any more that could write it: a kernel that opened the gate for the next launch
        # would have the device begin before the host's clock does.
        self._turn = int.from_bytes(os.urandom(4), "little")
        self._closed_us = now_us()
        self._launch(_PACKED.pack(self._word.pointer, self._turn, int(1000 * MOST_US)))

    def queue(self, steps: Sequence[Callable[[], object]]) -> float:
        """Queue these, and open the gate behind the last, or before where they are many or take long; as `open`."""
        opened_us = None
        for number, step in enumerate(steps):
            if opened_us is None and number >= _FEW_STEPS and self._is_long_since_closed(number):
                opened_us = self.open()
            step()
        return self.open() if opened_us is None else opened_us

    def _is_long_since_closed(self, queued: int) -> bool:
        return queued == _QUEUED_MOST or now_us() - self._closed_us > _QUEUEING_MOST_US

    def open(self) -> float:
        """Let the device go on. Since when it could, by the host's clock in µs: now, or when its time was up."""
        self._word.set(self._turn)
        opened_us = now_us()
        self.was_late = opened_us - self._closed_us >= MOST_US
        return min(opened_us, self._closed_us + MOST_US)
