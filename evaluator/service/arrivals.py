"""New connections, by whose turn it is: a burst of one address keeps neither others nor `/livez` waiting.

The kernel hands connections over in the order in which they came, and each takes some tenths of a millisecond until
it is served. So all are taken off its hands first, which takes a twentieth of that, and the addresses take turns. A
proxy has longer ones, which those take turns in whom its first requests name.
"""

import asyncio
import errno
import re
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from evaluator.service import logs
from evaluator.service.api.callers import forwarded_host, sender_of, site_of

_TAKEN_AT_ONCE: Final = 512
"""Connections that are taken off the kernel's hands before everything else has gone on."""
_SERVED_AT_ONCE: Final = 48
"""Of those, how many are served from then on."""
_SERVED_OF_PROXY: Final = 16
"""Connections of a trusted proxy that are served in one turn of it: it brings many callers. A third of what is served
at once, so that all others have most of it, and those of three proxies are equal."""
_PAUSE_S: Final = 1.0
"""How long nothing is taken where there is no file descriptor left."""
_SAID_EVERY_S: Final = 60.0
"""How often that is logged, which would else be in each pause, and a log of a full disk."""
_NO_ROOM: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PROBES: Final = (b"GET /livez ", b"HEAD /livez ")
_LOOKED_AT_BYTES: Final = 2048
"""Of what has come from a proxy: it has the headers that proxies add to an ordinary request."""
_FORWARDED: Final = re.compile(rb"\nx-forwarded-for:[ \t]*([^\r\n]*)\r?\n", re.IGNORECASE)

_LOG = logs.logger("arrivals")


class _Group(NamedTuple):
    """Who takes turns with all others."""

    site: str
    """The address; of IPv6 as much of it as may be one site's."""
    is_probe: bool
    """Those of an address whose request is known to be a probe take turns with its others."""
    most: int
    """Connections that are served in one turn."""


class Arrivals:
    """The connections that one socket listens for. For one event loop."""

    def __init__(
        self,
        listening: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        room: Callable[[], int],
        is_proxy: Callable[[str], bool] = lambda host: False,
    ) -> None:
        """`protocol` makes the protocol of one connection; `room` says how many may wait now, others being left to
        the kernel; `is_proxy` whether a host is trusted to say whose requests it brings.
        """
        self._listening, self._protocol, self._room, self._is_proxy = listening, protocol, room, is_proxy
        self._loop = asyncio.get_running_loop()
        # Within a group its senders take turns.
        self._waiting: dict[_Group, dict[str, deque[socket.socket]]] = {}
        self._count = 0
        self._soon: asyncio.Handle | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._closed = False
        self._said_s = float("-inf")
        self._pauses = 0

    def begin(self) -> None:
        """Take connections from now on, in place of whoever did so before."""
        self._loop.add_reader(self._listening.fileno(), self._take)

    def close(self) -> None:
        """Take no more; what waits or is about to be served is ended. The listening socket may be closed already."""
        self._closed = True
        if self._listening.fileno() >= 0:
            self._loop.remove_reader(self._listening.fileno())
        if self._soon is not None:
            self._soon.cancel()
        for task in self._serving:
            task.cancel()
        for senders in self._waiting.values():
            for connections in senders.values():
                for connection in connections:
                    connection.close()
        self._waiting.clear()
        self._count = 0

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
                self._pause(error)
                return
            connection.setblocking(False)
            group, sender = self._whose(connection, address[0])
            self._waiting.setdefault(group, {}).setdefault(sender, deque()).append(connection)
            self._count += 1
            self._serve_soon()

    def _whose(self, connection: socket.socket, host: str) -> tuple[_Group, str]:
        is_proxy = self._is_proxy(host)
        try:
            begun = connection.recv(_LOOKED_AT_BYTES if is_proxy else 16, socket.MSG_PEEK)
        except OSError:  # nothing has come yet, or its caller has gone
            begun = b""
        is_probe = begun.startswith(_PROBES)
        if not is_proxy:
            return _Group(site_of(host), is_probe, 1), sender_of(host)
        named = _FORWARDED.search(begun)
        caller = forwarded_host(named[1], self._is_proxy) if named else ""
        return _Group(site_of(host), is_probe, _SERVED_OF_PROXY), sender_of(caller)

    def _pause(self, error: OSError) -> None:
        """Take nothing for a while: the socket would be ready all the time."""
        self._loop.remove_reader(self._listening.fileno())
        self._loop.call_later(_PAUSE_S, self._take_again)
        self._pauses += 1
        if time.monotonic() - self._said_s >= _SAID_EVERY_S:
            _LOG.error("no connection can be taken", why=error.strerror, pauses=self._pauses, pause_s=_PAUSE_S)
            self._said_s, self._pauses = time.monotonic(), 0

    def _take_again(self) -> None:
        if not self._closed and self._listening.fileno() >= 0:
            self.begin()

    def _serve_soon(self) -> None:
        if self._soon is None:
            self._soon = self._loop.call_soon(self._serve_some)

    def _serve_some(self) -> None:
        self._soon = None
        left = min(_SERVED_AT_ONCE, self._count)
        while left and self._waiting:
            group = next(iter(self._waiting))
            senders = self._waiting.pop(group)
            for _ in range(min(left, group.most)):
                left -= 1
                self._serve_next(senders)
                if not senders:
                    break
            if senders:
                self._waiting[group] = senders  # behind all others
        if self._waiting:
            self._serve_soon()

    def _serve_next(self, senders: dict[str, deque[socket.socket]]) -> None:
        """Serve one connection of those whose turn is next within a group."""
        sender = next(iter(senders))
        connections = senders.pop(sender)
        connection = connections.popleft()
        self._count -= 1
        if connections:
            senders[sender] = connections
        task = self._loop.create_task(self._serve(connection))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        # One that has not begun yet closes nothing itself.
        task.add_done_callback(lambda ended: connection.close() if ended.cancelled() else None)

    async def _serve(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, connection)
        except OSError:  # its caller has gone
            connection.close()
