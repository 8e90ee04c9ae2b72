"""A process that does one piece of work after another, and is made anew after one that died or had to be ended."""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any, Final

_END_S: Final = 10.0
"""For a process to end what it started, before it is killed."""


class WorkerLostError(Exception):
    """The process gave no answer in its time, or ended before it had."""


class WorkerProcess:
    """One such process. For one thread at a time."""

    def __init__(self, serve: Callable[..., None], *arguments: object) -> None:
        """`serve(pipe, *arguments)` is what it runs, a function of a module; see `served`."""
        self._serve, self._arguments = serve, arguments
        self._context = multiprocessing.get_context("spawn")
        self._process: Any = None
        self._pipe: Any = None

    def parts(self, order: object, limit_s: float) -> Iterator[Any]:
        """What the process answers to an order, part by part. Raises WorkerLostError where it does not finish in its
        time; the next order then goes to a new process.
        """
        if self._process is None or not self._process.is_alive():
            self._pipe, other = self._context.Pipe()
            self._process = self._context.Process(target=self._serve, args=(other, *self._arguments))
            self._process.start()
            other.close()
        until_s = time.monotonic() + limit_s
        try:
            self._pipe.send(order)
            while self._pipe.poll(max(0.0, until_s - time.monotonic())):
                if (part := self._pipe.recv()) is None:
                    return
                yield part
        except (EOFError, OSError) as gone:
            self._end()
            raise WorkerLostError("its process ended") from gone
        self._end()
        raise WorkerLostError(f"not done in {limit_s:.0f} s")

    def end(self) -> None:
        """Let the process end."""
        if self._process is not None and self._process.is_alive():
            self._pipe.send(None)
            self._process.join(_END_S)
            self._end()

    def _end(self) -> None:
        self._process.terminate()
        self._process.join(_END_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def served(pipe: Connection, work: Callable[[Any], Iterator[Any]]) -> None:
    """Do what comes through the pipe, until nothing comes: each part of an answer is sent as soon as it is there."""
    while (order := pipe.recv()) is not None:
        for part in work(order):
            pipe.send(part)
        pipe.send(None)
