"""Containers that are started before there is a job for them."""

import atexit
import contextlib
import os
import socket
import threading
import weakref
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from evaluator.errors import SandboxError
from evaluator.sandbox.container.session import Container
from evaluator.sandbox.sandbox import Job

LONGEST_S: Final = 3600.0
"""Jobs that may run this long find a container ready; longer ones have shapes of their own."""
CLOSE_S: Final = 15.0
"""How long a grader that ends waits for containers that are being started."""
SHAPES: Final = 4
"""Kinds of limits for which containers are kept ready."""


@dataclass(frozen=True)
class ContainerShape:
    """What is fixed when a container is created."""

    memory_bytes: int
    work_bytes: int
    processes: int
    devices: tuple[Path, ...]
    longest_s: float

    @staticmethod
    def of(job: Job) -> "ContainerShape":
        limits = job.limits
        longest_s = max(LONGEST_S, limits.wall_s)
        return ContainerShape(limits.memory_bytes, limits.work_bytes, limits.processes, job.devices, longest_s)


class Starter(Protocol):
    """Who starts containers."""

    def start(self, shape: ContainerShape) -> Container:
        """One that waits for its order. Raises SandboxError."""

    def reap_now_and_then(self) -> None:
        """Remove what dead graders have left, if that was not done lately. Raises SandboxError."""


class ReadyContainers:
    """A few started containers for each shape used lately; a forked child begins with none of its parent's."""

    def __init__(self, engine: Starter, ahead: int) -> None:
        self._engine = engine
        self._ahead = ahead
        self._forget()
        _all_ready.add(self)

    def _forget(self) -> None:
        for container in [each for waiting in getattr(self, "_waiting", {}).values() for each in waiting]:
            container.connection.close()  # the parent's own descriptor of it stays open
        self._lock = threading.Condition()
        self._waiting: OrderedDict[ContainerShape, list[Container]] = OrderedDict()
        self._starting: dict[ContainerShape, int] = {}
        self._closed = False

    def take(self, shape: ContainerShape) -> Container:
        """A container that waits for its job; afterwards others are started in the background."""
        found = None
        dropped: list[Container] = []
        with self._lock:
            waiting = self._waiting.setdefault(shape, [])
            self._waiting.move_to_end(shape)
            while waiting and found is None:
                candidate = waiting.pop(0)
                if _lives(candidate):
                    found = candidate
                else:
                    dropped.append(candidate)
            while len(self._waiting) > SHAPES:
                dropped += self._waiting.popitem(last=False)[1]
        for container in dropped:
            container.end()
        if found is None:
            found = self._engine.start(shape)
        self._refill(shape)
        return found

    def _refill(self, shape: ContainerShape) -> None:
        if shape.devices:
            return  # a device is not taken before it is needed
        with self._lock:
            have = len(self._waiting.get(shape, ())) + self._starting.get(shape, 0)
            lacking = 0 if self._closed else max(0, self._ahead - have)
            self._starting[shape] = self._starting.get(shape, 0) + lacking
        for _ in range(lacking):
            threading.Thread(target=self._add, args=(shape,), name="assay-containers", daemon=True).start()

    def _add(self, shape: ContainerShape) -> None:
        container = None
        try:
            with contextlib.suppress(SandboxError):  # the job that needs one will say it
                container = self._engine.start(shape)
                with self._lock:
                    if not self._closed and shape in self._waiting:
                        self._waiting[shape].append(container)
                        container = None
            if container is not None:
                container.end()
            with contextlib.suppress(SandboxError):
                self._engine.reap_now_and_then()
        finally:
            with self._lock:
                self._starting[shape] -= 1
                self._lock.notify_all()

    def close(self) -> None:
        """End those that wait, and see to it that none is left half made."""
        with self._lock:
            containers = [each for waiting in self._waiting.values() for each in waiting]
            self._waiting.clear()
            self._closed = True
        for container in containers:
            container.end()
        with self._lock:
            self._lock.wait_for(lambda: not any(self._starting.values()), timeout=CLOSE_S)


_all_ready: "weakref.WeakSet[ReadyContainers]" = weakref.WeakSet()


def _forget_all() -> None:
    for ready in list(_all_ready):
        ready._forget()


def _close_all() -> None:
    for ready in list(_all_ready):
        ready.close()


os.register_at_fork(after_in_child=_forget_all)
atexit.register(_close_all)


def _lives(container: Container) -> bool:
    # One that still waits has said nothing; one that ended, or whose daemon did, shows the end of its stream.
    try:
        container.connection.setblocking(False)
        container.connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
