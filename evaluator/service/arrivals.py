"""New connections, by whose turn it is: a burst of one address keeps neither others nor `/livez` waiting.

The kernel hands connections over in the order in which they came, and each takes some tenths of a millisecond until
it is served. So all are taken off its hands first, which takes a twentieth of that, and the addresses take turns.
"""

import asyncio
import errno
import socket
from collections import deque
from collections.abc import Callable
from typing import Final

from evaluator.service.api.callers import sender_of

_TAKEN_AT_ONCE: Final = 512
"""Connections that are taken off the kernel's hands before everything else has gone on."""
_SERVED_AT_ONCE: Final = 48
"""Of those, how many are served from then on."""
_PAUSE_S: Final = 1.0
"""How long nothing is taken where there is no file descriptor left."""
_NO_ROOM: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PROBES: Final = (b"GET /livez ", b"HEAD /livez ")


class Arrivals:
    """The connections that one socket listens for. For one event loop."""

    def __init__(
        self, listening: socket.socket, protocol: Callable[[], asyncio.Protocol], room: Callable[[], int]
    ) -> None:
        """`protocol` makes the protocol of one connection; `room` says how many may wait now, others being left to
        the kernel.
        """
        self._listening, self._protocol, self._room = listening, protocol, room
        self._loop = asyncio.get_running_loop()
        # Those of an address whose request is known to be a probe take turns with its others.
        self._waiting: dict[tuple[str, bool], deque[socket.socket]] = {}
        self._count = 0
        self._soon: asyncio.Handle | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._closed = False

    def begin(self) -> None:
        """Take connections from now on, in place of whoever did so before."""
        self._loop.add_reader(self._listening.fileno(), self._take)

    def close(self) -> None:
        """Take no more; what waits is ended. The listening socket may be closed already."""
        self._closed = True
        if self._listening.fileno() >= 0:
            self._loop.remove_reader(self._listening.fileno())
        for connections in self._waiting.values():
            for connection in connections:
                connection.close()
        self._waiting.clear()

    def _take(self) -> None:
        # The loop comes back as long as there is something to take.
        for _ in range(min(_TAKEN_AT_ONCE, self._room() - self._count)):
            try:
                connection, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                self._loop.remove_reader(self._listening.fileno())
                self._loop.call_later(_PAUSE_S, self._take_again)
                return
            connection.setblocking(False)
            whose = sender_of(address[0]), _is_probe(connection)
            self._waiting.setdefault(whose, deque()).append(connection)
            self._count += 1
            self._serve_soon()

    def _take_again(self) -> None:
        if not self._closed and self._listening.fileno() >= 0:
            self.begin()

    def _serve_soon(self) -> None:
        if self._soon is None:
            self._soon = self._loop.call_soon(self._serve_some)

    def _serve_some(self) -> None:
        self._soon = None
        for _ in range(min(_SERVED_AT_ONCE, self._count)):
            if not self._waiting:
                return
            whose = next(iter(self._waiting))
            connections = self._waiting.pop(whose)
            connection = connections.popleft()
            self._count -= 1
            if connections:
                self._waiting[whose] = connections  # behind all others
            task = self._loop.create_task(self._serve(connection))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        if self._waiting:
            self._serve_soon()

    async def _serve(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, connection)
        except OSError:  # its caller has gone
            connection.close()


def _is_probe(connection: socket.socket) -> bool:
    """Whether what has come of its first request asks for `/livez`."""
    try:
        return connection.recv(16, socket.MSG_PEEK).startswith(_PROBES)
    except OSError:  # nothing has come yet, or its caller has gone
        return False
