"""Device memory that is addresses alone, and what was done to it, written down."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

ALIGNMENT: Final = 512
"""What PyTorch gives its tensors."""
MAX_STEPS: Final = 2048
MAX_BUFFERS: Final = 508
"""Of one call, and of what comes before the first."""
MAX_ORDERS: Final = 4 * MAX_STEPS
MAX_STREAMS: Final = 512
MAX_BUFFER_BYTES: Final = 1 << 37
SEED_BITS: Final = 63
_LOWEST: Final = 0x7F0000000000
_GAPS: Final = 1 << 12


class NotRecordedError(AttributeError):
    """Something that cannot be recorded. `hasattr` says no where an attribute raises it."""


class ReadsDataError(NotRecordedError):
    """Python that asks what a tensor holds."""


def _not_copied(one: Any, kind: Any) -> NoReturn:
    raise NotRecordedError(f"a conversion from {one.dtype} to {kind}")


class RecordedMemory:
    """Buffers at made-up addresses, none of which comes twice, and the steps on them."""

    def __init__(self, seed: int) -> None:
        """`seed`: of the other recording of the same call it has every bit another."""
        self._random, self._seed = random.Random(seed), seed
        self._next = _LOWEST
        self._pauses = 0
        self.buffers: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []
        self.calls: list[dict[str, Any]] = []
        self.stream = 0
        """Which the next step is on; 0 is the default stream."""
        self.non_blocking: list[int] = []
        """All others: PyTorch's streams do not wait for the default stream, nor it for them."""
        self.copied: Callable[[Any, Any], Any] = _not_copied
        """Makes a tensor's elements anew, in order and in a type; set where Triton is imported."""
        self._ours: list[tuple[int, int]] = []
        self._events = 0
        self._step_count = self._order_count = 0
        self._asked: dict[tuple[str, int], int] = {}
        """How many steps there were when a stream or an event was asked about."""
        self._buffers_before = 0

    def begin_call(self) -> None:
        """What follows belongs to the next call."""
        self.calls.append({"first_step": len(self.steps), "returned": []})
        self._buffers_before = len(self.buffers)
        self._step_count = self._order_count = 0
        self._asked.clear()

    def new_stream(self) -> int:
        """The number of another stream."""
        if len(self.non_blocking) >= MAX_STREAMS:
            raise NotRecordedError(f"more than {MAX_STREAMS} streams")
        self.non_blocking.append(len(self.non_blocking) + 1)
        return self.non_blocking[-1]

    def new_event(self) -> int:
        """The number of another event."""
        self._events += 1
        return self._events

    def order(self, what: str, stream: int = 0, event: int = 0) -> None:
        """What orders steps of several streams, or lets the host wait: as of a recording."""
        if self._pauses:
            return
        if self._order_count >= MAX_ORDERS:
            raise NotRecordedError(f"more than {MAX_ORDERS} waits, and events that are recorded")
        self._order_count += 1
        self.steps.append({"order": what, "stream": stream, "event": event})

    def is_done(self, what: str, number: int) -> bool:
        """Whether a stream (`what`: "stream") or an event is done that is asked about, and then waited for.

        Nothing runs, and a GPU may take its time: while steps may be under way, only when it is asked again.
        """
        asked, self._asked[what, number] = self._asked.get((what, number)), self._step_count
        if self._may_be_under_way(what, number) and asked != self._step_count:
            return False
        self.order(what, **{what: number})
        return True

    def _may_be_under_way(self, what: str, number: int) -> bool:
        """Whether the call has a step on this stream, or before this event's last record, not waited for by that."""
        recorded = what == "stream"
        for step in reversed(self.steps[self.calls[-1]["first_step"] if self.calls else 0 :]):
            if "order" not in step:
                if recorded and (what == "event" or step["stream"] == number):
                    return True
            elif step["order"] == "device" or (step["order"] == what and step[what] == number):
                return False
            else:
                recorded = recorded or (step["order"] == "record" and step["event"] == number)
        return False

    def allocate(self, size_bytes: int) -> int:
        """The address of a new buffer. One that is made while nothing is recorded belongs to no plan."""
        if size_bytes > MAX_BUFFER_BYTES:
            raise MemoryError(f"a tensor of {size_bytes >> 20} MiB")
        place = self._next // ALIGNMENT + self._random.randrange(1, _GAPS)
        # Odd in one recording and even in the other, for each buffer that is recorded.
        place += (place ^ self._seed >> len(self.buffers) % SEED_BITS) & 1
        base = place * ALIGNMENT
        self._next = base + -(-max(1, size_bytes) // ALIGNMENT) * ALIGNMENT
        if not self._pauses and size_bytes:
            if len(self.buffers) - self._buffers_before >= MAX_BUFFERS:
                raise NotRecordedError(f"more than {MAX_BUFFERS} tensors")
            self.buffers.append({"base": base, "bytes": size_bytes})
        return base

    def made_by_us(self, address: int, size_bytes: int) -> None:
        """Note a stretch whose contents a kernel of ours makes."""
        self._ours.append((address, address + size_bytes))

    def no_output(self, address: int) -> None:
        """Raise NotRecordedError for an address in such a stretch: what is there, the submission has not computed."""
        if any(start <= address < end for start, end in self._ours):
            raise NotRecordedError("what Tensor.contiguous() or a conversion made, as an output")

    @property
    def is_paused(self) -> bool:
        """Whether nothing is recorded now."""
        return self._pauses > 0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing is recorded meanwhile: what autotuning tries is no part of a launch."""
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1

    def fill(self, address: int, pattern: bytes, size_bytes: int) -> None:
        """Repeat `pattern` over a stretch."""
        if size_bytes:
            pattern = pattern[:1] if len(set(pattern)) == 1 else pattern
            self._step({"fill": address, "data": pattern.hex(), "bytes": size_bytes, "stream": self.stream})

    def copy(self, to: int, source: int, size_bytes: int) -> None:
        """Copy a stretch to another."""
        if size_bytes:
            self._step({"to": to, "source": source, "bytes": size_bytes, "stream": self.stream})

    def launch(self, **fields: Any) -> None:
        """Launch a kernel; `fields` are those of a recorded launch."""
        self._step({**fields, "stream": self.stream})

    def _step(self, step: dict[str, Any]) -> None:
        if self._pauses:
            return
        if self._step_count >= MAX_STEPS:
            raise NotRecordedError(f"more than {MAX_STEPS} launches, fills and copies")
        self._step_count += 1
        self.steps.append(step)
