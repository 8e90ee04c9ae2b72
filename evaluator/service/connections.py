"""One connection of the HTTP server: how many an address may have, and how one ends."""

import asyncio
import contextlib
import re
import socket
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, ClassVar, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from evaluator.service.api.callers import forwarded_host, sender_of
from evaluator.service.api.errors import ApiError
from evaluator.service.turns import Claim, RequestTurn, Turns
from evaluator.service.web.pages import COOKIE

HEADERS_BYTES: Final = 64 << 10
"""Most bytes of a request before its body."""
_LINGERS_S: Final = 2.0
"""How long a connection that is to end takes in what its caller still sends of a body."""
_READ_UNASKED_BYTES: Final = 16 << 10
"""Most that is read at one time of a connection that is at no request, and kept until its turn."""
_READ_AT_ONCE_BYTES: Final = 256 << 10
"""As much as asyncio reads itself at one time."""
_HEAD_ENDS: Final = re.compile(rb"\n\r?\n")
_CLAIMS: Final = re.compile(rb"\n(authorization|cookie|x-forwarded-for):[ \t]*([^\r\n]*)", re.IGNORECASE)

_READ: Final = frozenset(
    [
        *(b"accept", b"accept-encoding", b"authorization", b"connection", b"content-encoding", b"content-length"),
        *(b"content-type", b"cookie", b"host", b"idempotency-key", b"if-none-match", b"last-event-id", b"origin"),
        *(b"prefer", b"sec-fetch-site", b"transfer-encoding", b"upgrade", b"x-forwarded-for", b"x-forwarded-proto"),
        b"x-request-id",
    ]
)
"""The headers that anything here reads."""
_READ_BYTES: Final = 8 << 10
"""Most bytes of them in one request."""


class Requests(h11.Connection):
    """HTTP as h11 reads it, of whose requests only the headers are kept that are read here, and of cookies our own.

    A request may wait for minutes and a caller have thousands of them: whatever else stands in their headers would
    stay in memory as long.
    """

    refusal = ""
    """Why the last request cannot be used."""

    def next_event(self) -> Any:
        event = super().next_event()
        if not isinstance(event, h11.Request):
            return event
        kept = [
            (name, _own_cookies(value) if name == b"cookie" else value)
            for name, value in event.headers
            if name in _READ
        ]
        if sum(len(name) + len(value) for name, value in kept) > _READ_BYTES:
            self.refusal = f"Those of its headers that are read here have more than {_READ_BYTES >> 10} KiB."
            raise h11.RemoteProtocolError(self.refusal)
        object.__setattr__(event, "headers", kept)
        return event


def _own_cookies(cookies: bytes) -> bytes:
    own = (one.strip() for one in cookies.split(b";"))
    return b"; ".join(one for one in own if one.partition(b"=")[0] == COOKIE.encode())


class PoliteTransport:
    """A transport whose caller hears the answer also where it comes before the body is there.

    A socket that is closed while something in it is unread answers with a reset, on which the caller's system drops
    what it has not handed over yet: the refusal (RFC 9112, 9.6). So the writing half is closed first.
    """

    def __init__(self, connection: "HttpConnection", transport: asyncio.Transport) -> None:
        self._connection, self._transport = connection, transport
        self.lingers = False

    @property
    def max_size(self) -> int:
        """Most bytes that are read at one time."""
        return cast(int, cast(Any, self._transport).max_size)

    @max_size.setter
    def max_size(self, size_bytes: int) -> None:
        cast(Any, self._transport).max_size = size_bytes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """As far as the protocol should know."""
        return self.lingers or self._transport.is_closing()

    def close(self) -> None:
        """End it, after the answer; where its caller sends a body, when that has ended, but soon."""
        if self._connection.conn.their_state is not h11.SEND_BODY or self.is_closing():
            self._transport.close()
            return
        self.lingers = True
        self._connection.flow.resume_reading()
        self._transport.write_eof()
        asyncio.get_running_loop().call_later(_LINGERS_S, self._transport.close)


class HttpConnection(H11Protocol):
    """One connection; beyond `most` of them, one that has sent no whole request is closed, or else the new one.

    Of one address at most `most_of_address` are open that are at no request. A proxy that is trusted to say whose
    requests it brings has as many as it likes: the middleware counts those whom it names.
    """

    most = 0
    most_of_address = 0
    is_proxy: Callable[[str], bool] = staticmethod(lambda address: False)
    of_address: ClassVar[defaultdict[str, set["HttpConnection"]]]
    """Those of each address."""
    turns: Turns
    _address = ""
    _quiet_since_s = 0.0
    """Since when it may send a request, where it is at none."""
    _turn: RequestTurn | None = None
    """That of the last request that began."""
    waits_for_turn = False
    """Whether the next request is here, and others come first."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.conn = self._requests = Requests(h11.SERVER, self.config.h11_max_incomplete_event_size or HEADERS_BYTES)
        self._polite = PoliteTransport(self, transport)
        self.transport = cast(asyncio.Transport, self._polite)
        self._first_state = self.app_state
        self._read_at_once(_READ_UNASKED_BYTES)
        # An answer goes out in two parts; without this the second waits 40 ms for the first to be acknowledged.
        # asyncio itself does so only for sockets that were made with IPPROTO_TCP.
        with contextlib.suppress(OSError):
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._quiet_since_s = time.monotonic()
        if self.client is not None and not self.is_proxy(self.client[0]):
            self._address = sender_of(self.client[0])
            self.of_address[self._address].add(self)
        # Headers that are begun and not ended cost nothing to send: they are not to shut others out.
        if len(self.of_address[self._address]) > self.most_of_address:
            quiet = [one for one in self.of_address[self._address] if one._is_quiet]
            if len(quiet) > self.most_of_address:
                self._close_oldest(quiet)
        if len(self.connections) > self.most:
            others = [cast(HttpConnection, one) for one in self.connections if one is not self]
            self._close_oldest([one for one in others if one._is_quiet])

    def data_received(self, data: bytes) -> None:
        if not self._polite.lingers:  # else the rest of what was refused
            super().data_received(data)

    def handle_events(self) -> None:
        """Go on with what has arrived. A request begins when it is its caller's turn: until then nobody reads it."""
        if self.waits_for_turn:
            return
        if self.conn.their_state is not h11.IDLE:
            super().handle_events()
            return
        arrived = self.conn.trailing_data[0]
        head = _HEAD_ENDS.search(arrived)
        if head is None:  # no request yet, or none that can be read
            super().handle_events()
            return
        claim = self._claim(arrived[: head.start()])
        if self.turns.is_full(claim):
            self._refuse(ApiError("busy", "Too many requests of this caller wait already.", "Try again.", 2))
            return
        self.waits_for_turn = True
        self._unset_keepalive_if_required()
        self.flow.pause_reading()
        self.turns.ask(claim, lambda: self._begin(RequestTurn(self.turns, claim)))

    def _begin(self, turn: RequestTurn) -> None:
        self.waits_for_turn = False
        if self._transport_is_gone():
            turn.leave()
            return
        before = self.cycle
        self._turn = turn
        self.app_state = {**self._first_state, "turn": turn}
        self._read_at_once(_READ_AT_ONCE_BYTES)
        self.flow.resume_reading()
        super().handle_events()
        if self.cycle is before:
            turn.leave()

    def _claim(self, head: bytes) -> Claim:
        """Who sends this, to take turns with others. `/livez` is answered whatever else its caller asks."""
        address, secret = self._address, b""
        for name, value in _CLAIMS.findall(head):
            match name.lower():
                case b"x-forwarded-for" if not self._address:
                    address = sender_of(forwarded_host(value, self.is_proxy))
                case b"authorization":
                    secret = value
                case b"cookie" if not secret:
                    secret = _own_cookies(value)
        return Claim(address, b"/livez" if head.startswith((b"GET /livez ", b"HEAD /livez ")) else secret)

    def _transport_is_gone(self) -> bool:
        return self.transport.is_closing() or self not in self.connections

    def _read_at_once(self, size_bytes: int) -> None:
        self._polite.max_size = size_bytes

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _close_oldest(self, quiet: list["HttpConnection"]) -> None:
        """End the one that has been quiet for longest; where there is none, this one."""
        oldest = min(quiet, key=lambda one: one._quiet_since_s, default=self)
        oldest._forget()  # it is told of its end later, and others may come before that
        oldest.transport.abort()

    def _forget(self) -> None:
        self.connections.discard(self)
        mine = self.of_address[self._address]
        mine.discard(self)
        if not mine:
            del self.of_address[self._address]

    def on_response_complete(self) -> None:
        self._quiet_since_s = time.monotonic()
        if self._turn is not None:
            self._turn.leave()
        self._read_at_once(_READ_UNASKED_BYTES)
        super().on_response_complete()

    @property
    def _is_quiet(self) -> bool:
        is_idle = self.conn.their_state is h11.IDLE and (self.cycle is None or self.cycle.response_complete)
        return is_idle and not self.waits_for_turn

    def send_400_response(self, msg: str) -> None:
        remedy = "Send fewer or shorter headers." if self._requests.refusal else "Write it as HTTP/1.1 asks for."
        self._refuse(ApiError("malformed", self._requests.refusal or msg, remedy))

    def _refuse(self, refused: ApiError) -> None:
        body = refused.problem().model_dump_json(exclude_none=True).encode()
        headers = [
            (b"content-type", b"application/problem+json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
            *((name.lower().encode(), value.encode()) for name, value in (refused.headers or {}).items()),
        ]
        with contextlib.suppress(h11.LocalProtocolError):  # an answer is half sent already
            answer = h11.Response(status_code=refused.status_code, headers=headers)
            for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
