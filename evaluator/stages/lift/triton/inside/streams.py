"""`torch.cuda.Stream`, `torch.cuda.Event` and what makes one wait for another, written down."""

import contextlib
from collections.abc import Iterator
from typing import Any, NoReturn

from evaluator.stages.lift.triton.inside.memory import NotRecordedError, RecordedMemory


def streams_on(memory: RecordedMemory) -> dict[str, Any]:
    """The names of `torch.cuda` that are about streams; steps and waits go to `memory`."""

    class Event:
        """As `torch.cuda.Event`; until it is recorded, nobody waits for it."""

        def __init__(self, *_: Any, **__: Any) -> None:
            self.number = memory.new_event()

        def record(self, stream: Any = None) -> None:
            memory.order("record", memory.stream if stream is None else stream.number, self.number)

        def wait(self, stream: Any = None) -> None:
            memory.order("wait", memory.stream if stream is None else stream.number, self.number)

        def synchronize(self) -> None:
            memory.order("event", event=self.number)

        def query(self) -> bool:
            return memory.is_done("event", self.number)

        def elapsed_time(self, *_: Any) -> NoReturn:
            raise NotRecordedError("torch.cuda.Event.elapsed_time")

    class Stream:
        """As `torch.cuda.Stream`."""

        def __init__(self, *_: Any, number: int | None = None, **__: Any) -> None:
            self.number = memory.new_stream() if number is None else number
            self._entered: list[int] = []

        @property
        def cuda_stream(self) -> int:
            return self.number

        def __enter__(self) -> "Stream":
            self._entered.append(memory.stream)
            memory.stream = self.number
            return self

        def __exit__(self, *_: object) -> None:
            memory.stream = self._entered.pop()

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Stream) and self.number == other.number

        def __hash__(self) -> int:
            return self.number

        def synchronize(self) -> None:
            memory.order("stream", self.number)

        def query(self) -> bool:
            return memory.is_done("stream", self.number)

        def record_event(self, event: Event | None = None) -> Event:
            event = event or Event()
            event.record(self)
            return event

        def wait_event(self, event: Event) -> None:
            event.wait(self)

        def wait_stream(self, stream: "Stream") -> None:
            self.wait_event(stream.record_event())

    @contextlib.contextmanager
    def on(stream: Stream | None) -> Iterator[None]:
        """`torch.cuda.stream`."""
        with stream if stream is not None else contextlib.nullcontext():
            yield

    def set_stream(stream: Stream) -> None:
        memory.stream = stream.number

    return {
        "Stream": Stream,
        "Event": Event,
        "stream": on,
        "set_stream": set_stream,
        "current_stream": lambda device=None: Stream(number=memory.stream),
        "default_stream": lambda device=None: Stream(number=0),
    }
