"""What every request passes before any route: its id, bounds on its body, a line in the log, its metrics."""

import asyncio
import gzip
import re
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeAlias

from evaluator.errors import AssayError
from evaluator.service import logs
from evaluator.service.api.admission import Admission
from evaluator.service.api.callers import LOCAL, LOCAL_CALLER, Authenticator, Caller, sender_of
from evaluator.service.api.errors import AGAIN, ApiError, Page, refusal_of
from evaluator.service.api.metrics import Metrics
from evaluator.service.storage.secrets import bearer_secret
from evaluator.service.turns import Claim, RequestTurn, Turns
from evaluator.settings import ServiceSettings

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

BATCH_PATH = "/evaluate/batch"
SUBMIT_PATHS = ("/evaluate", BATCH_PATH)

_THE_CALLERS_FAULT = (400, 408, 413, 415, 422)
"""The refusals that cost as much of a quota as what could have been asked for instead."""
_BYTES_OF_ONE = 1 << 20
"""What the body of one evaluation holds at most that is any use: its source."""

_MOST_OPEN = 1024
"""Requests of one key that are open at one time. One that waits takes 40 KB and 200 objects, through all of which the
garbage collector looks while everything stops."""
_MOST_OPEN_LOCAL = 4 * _MOST_OPEN
"""The same of all callers together, while there is no key: a trainer, a browser and what else this machine runs."""

_LOG = logs.logger("http")
_SANE_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
_OURS = (b"x-request-id", b"x-content-type-options", b"vary")
_GZIPPED = (b"application/json", b"application/problem+json")
_LEAST_GZIPPED_BYTES = 1 << 10
"""Below this it would save a packet at most."""
_GZIP_LEVEL = 5
"""Verdicts become a fifth at 1 ms for 64 KiB; the highest level takes three times as long for a twentieth less."""
_LOOPBACK = re.compile(r"(localhost|[\w-]+\.localhost|127\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}|\[::1\])(:[0-9]{1,5})?")


class _Answer:
    """What goes out, with the headers that every answer has; of a HEAD, the headers alone."""

    def __init__(self, send: Send, request_id: str, headers: Mapping[bytes, str], head: bool) -> None:
        self._send, self._request_id, self._head = send, request_id, head
        self._gzips = _takes_gzip(headers.get(b"accept-encoding", ""))
        self._held: Message | None = None
        """The beginning of an answer that is to be made small, until all of it is here."""
        self.status = 0
        """0 until the answer has begun."""
        self.begun = asyncio.Event()

    async def send(self, message: Message) -> None:
        if message["type"] != "http.response.start":
            await self._send_body(message)
            return
        self.status = message["status"]
        given = {name.lower(): value for name, value in message.get("headers", ())}
        # A path may have a page and a document, and each may be sent in two codings.
        vary = [one.strip() for one in given.get(b"vary", b"").decode("latin-1").split(",") if one.strip()]
        vary += [one for one in ("Accept", "Accept-Encoding") if one not in vary]
        message["headers"] = [
            *(one for one in message.get("headers", ()) if one[0].lower() not in _OURS),
            (b"vary", ", ".join(vary).encode("latin-1")),
            (b"x-request-id", self._request_id.encode("latin-1")),
            (b"x-content-type-options", b"nosniff"),
        ]
        if self._head:
            await self._send(message)
            await self._send({"type": "http.response.body", "body": b""})
            self.begun.set()
        elif self._gzips and _worth_gzip(given):
            self._held = message
        else:
            await self._send(message)

    async def _send_body(self, message: Message) -> None:
        if self._head:
            return
        begun, self._held = self._held, None
        if begun is not None:
            body = await asyncio.to_thread(gzip.compress, message.get("body", b""), _GZIP_LEVEL, mtime=0)
            length = (b"content-length", str(len(body)).encode())
            kept = [one for one in begun["headers"] if one[0].lower() != b"content-length"]
            await self._send({**begun, "headers": [*kept, (b"content-encoding", b"gzip"), length]})
            message = {**message, "body": body}
        await self._send(message)


def _takes_gzip(accept_encoding: str) -> bool:
    for one in accept_encoding.lower().split(","):
        name, _, weight = one.partition(";")
        if name.strip() == "gzip":
            return re.fullmatch(r"\s*q=0(\.0*)?\s*", weight) is None
    return False


def _worth_gzip(headers: Mapping[bytes, bytes]) -> bool:
    """Documents that are sent whole. No pages: their forms hold a secret, which the length of a coded page could tell
    to someone who has a part of the page repeated (BREACH). No streams, which must not wait.
    """
    kind = headers.get(b"content-type", b"").partition(b";")[0]
    length = headers.get(b"content-length", b"")
    return kind in _GZIPPED and length.isdigit() and int(length) >= _LEAST_GZIPPED_BYTES


class RequestMiddleware:
    """An ASGI application around another."""

    def __init__(
        self,
        app: Application,
        authenticator: Authenticator,
        admission: Admission,
        settings: ServiceSettings,
        metrics: Metrics,
        page: Page,
    ) -> None:
        """`page`: a refusal as a page, for a browser."""
        self._app = app
        self._authenticator, self._admission = authenticator, admission
        self._settings = settings
        self._metrics = metrics
        self._page = page
        self._arriving_bytes: Counter[str] = Counter()
        self.share_bytes = max(settings.bodies_bytes // 2, settings.batch_bytes)
        """What the bodies of one tenant may take."""
        self._open: Counter[str] = Counter()
        half = max(1, settings.connections // 2)
        self.share_open, self.share_open_local = min(_MOST_OPEN, half), min(_MOST_OPEN_LOCAL, half)
        """Requests of one key that are answered at one time, and of all callers together while there is no key: each
        has a connection and takes some memory."""
        self._open_keyless: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. Nothing escapes: what nobody foresaw is logged and answered with a `Problem`."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        named = headers.get(b"x-request-id", "")
        request_id = named if _SANE_ID.fullmatch(named) else f"req_{secrets.token_urlsafe(12)}"
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        if "turn" not in state:  # under another server nobody waits
            state["turn"] = RequestTurn(Turns(), Claim("", b""))
        turn: RequestTurn = state["turn"]
        started_s = time.monotonic()
        head = scope["method"] == "HEAD"
        if head:  # what a GET would be answered now, but not what it would wait for
            asked = [one for one in scope["headers"] if one[0].lower() != b"prefer"]
            scope = {**scope, "method": "GET", "headers": asked}
        answer = _Answer(send, request_id, headers, head)
        accept = headers.get(b"accept", "")

        async def refuse(refused: ApiError) -> None:
            if not answer.status:
                told = self._page(accept, refused) or refused.response(request_id)
                await told(scope, receive, answer.send)

        body = Body(self, receive, self._limit_bytes(scope), self._settings.receive_s)
        with logs.bound(request_id=request_id):
            try:
                await self._count(scope, headers, body)
                await self._admit(scope, headers, body)
                del headers  # what follows may wait for minutes
                if head:
                    await _until_begun(self._app(scope, body.receive, answer.send), answer.begun)
                else:
                    await self._app(scope, body.receive, answer.send)
            except ApiError as refused:
                await refuse(refused)
            except Exception as error:
                _LOG.error("unforeseen", exc_info=error)
                await refuse(
                    ApiError("internal", f"Something of the service failed; it is logged as {request_id}.", AGAIN)
                )
            finally:
                body.end()
                turn.leave()
                self._record(scope, body, answer.status, time.monotonic() - started_s)

    async def _count(self, scope: Scope, headers: dict[bytes, str], body: "Body") -> None:
        """Count it among the requests of its address, until it shows a key. Raises ApiError."""
        client = scope.get("client")  # behind a trusted proxy the one that the proxy names
        try:
            body.comes_from(sender_of(client[0]) if client else "")
        except ApiError:
            # Others of the same address, as behind one router, are not to shut out those who have a key.
            authorization = headers.get(b"authorization")
            if authorization is None:
                raise
            body.is_of(await self._caller(authorization))

    async def _admit(self, scope: Scope, headers: dict[bytes, str], body: "Body") -> None:
        """Refuse what can be refused before a byte of the body is read. Raises ApiError."""
        await self._look(headers)
        body.expect(headers)
        scope["state"]["body"] = body
        if scope["method"] == "POST" and scope["path"] in SUBMIT_PATHS:
            # Before the body: who has no key takes no memory, and nobody takes another's share of it.
            caller = await self._caller(headers.get(b"authorization", ""))
            scope["state"]["caller"] = caller
            body.is_of(caller)
            self._admission.look_at_rate(caller)

    def _record(self, scope: Scope, body: "Body", status: int, took_s: float) -> None:
        """What is kept of a request that has been answered."""
        caller: Caller | None = scope["state"].get("caller")
        if caller is not None and status in _THE_CALLERS_FAULT:
            self._admission.refused(caller, 1 + body.taken_bytes // _BYTES_OF_ONE)
        route = getattr(scope.get("route"), "path", "none")
        self._metrics.http(scope["method"], route, status, took_s)
        _LOG.info(
            "request",
            method=scope["method"],
            path=scope["path"][:200],
            route=route,
            status=status,
            duration_ms=round(took_s * 1e3, 1),
            body_bytes=body.taken_bytes,
        )

    def take(self, size_bytes: int, tenant: str) -> None:
        """Make room for a part of a body. Raises ApiError where too much is on its way, of all or of this tenant."""
        own_bytes = self._arriving_bytes[tenant] + size_bytes
        all_bytes = self._arriving_bytes.total() + size_bytes
        if own_bytes > self.share_bytes or all_bytes > self._settings.bodies_bytes:
            raise ApiError("busy", "Too many large requests are arriving at once.", "Try again.", retry_after_s=2)
        self._arriving_bytes[tenant] = own_bytes

    def give_back(self, size_bytes: int, tenant: str) -> None:
        """A body is dealt with."""
        self._arriving_bytes[tenant] -= size_bytes
        if not self._arriving_bytes[tenant]:
            del self._arriving_bytes[tenant]

    def begin_keyless(self, sender: str) -> None:
        """One more request of this address that has shown no key yet. Raises ApiError where it has its share."""
        if self._open_keyless[sender] >= self._settings.most_of_address:
            raise ApiError(
                "busy",
                "This address has as many open requests without a key as one may.",
                "End some, or send a key.",
                retry_after_s=2,
            )
        self._open_keyless[sender] += 1

    def end_keyless(self, sender: str) -> None:
        """One of them is answered, or has shown its key."""
        self._open_keyless[sender] -= 1
        if not self._open_keyless[sender]:
            del self._open_keyless[sender]

    def begin(self, tenant: str) -> None:
        """One more request of this tenant is being answered. Raises ApiError where it has its share of them."""
        if tenant == LOCAL and self._open[tenant] >= self.share_open_local:
            raise ApiError("busy", "There are as many open requests as there may be.", "End some.", retry_after_s=2)
        if tenant != LOCAL and self._open[tenant] >= self.share_open:
            raise ApiError("busy", "This key has as many open requests as one may.", "End some.", retry_after_s=2)
        self._open[tenant] += 1

    def end(self, tenant: str) -> None:
        """One of them is answered."""
        self._open[tenant] -= 1
        if not self._open[tenant]:
            del self._open[tenant]

    async def _caller(self, authorization: str) -> Caller:
        """Who sends this header. Raises ApiError."""
        if self._authenticator.known_open():
            return LOCAL_CALLER
        try:
            return await asyncio.to_thread(self._authenticator.caller, bearer_secret(authorization) or None)
        except AssayError as error:
            raise refusal_of(error) from error

    def _limit_bytes(self, scope: Scope) -> int:
        return self._settings.batch_bytes if scope["path"] == BATCH_PATH else self._settings.body_bytes

    async def _look(self, headers: dict[bytes, str]) -> None:
        """Refuse a web page that has pointed its own name at this machine, to use a server that asks for no key."""
        if _LOOPBACK.fullmatch(headers.get(b"host", "localhost").lower()):
            return
        try:
            is_open = self._authenticator.known_open()
            if is_open is None:
                is_open = await asyncio.to_thread(self._authenticator.is_open)
        except AssayError as error:
            raise refusal_of(error) from error
        if is_open:
            raise ApiError(
                "misdirected",
                "While this server asks for no key, it answers only to the names of this machine itself.",
                "Use http://localhost, or make a key: `assay keys add NAME`.",
            )


async def _until_begun(answering: Awaitable[None], begun: asyncio.Event) -> None:
    """Run the application until its answer has begun: a stream would go on for as long as there is news."""
    running, begins = asyncio.ensure_future(answering), asyncio.ensure_future(begun.wait())
    try:
        await asyncio.wait((running, begins), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        for one in (running, begins):
            one.cancel()
        await asyncio.wait((running, begins))


class Body:
    """A request's body on its way in: counted, bounded in size and in time."""

    def __init__(self, door: RequestMiddleware, receive: Receive, limit_bytes: int, limit_s: float) -> None:
        self._door = door
        self._receive = receive
        self._limit_bytes = limit_bytes
        self._limit_s = limit_s
        self._deadline_s: float | None = None
        self._complete = False
        self._held_bytes = 0
        self._counted = False
        self._sender: str | None = None
        """The address among whose requests without a key it counts."""
        self.taken_bytes = 0
        self.tenant = ""
        """Whose share of the room for bodies it takes; empty for those whom nobody asked for a key."""

    def comes_from(self, sender: str) -> None:
        """Say which address sent it. Raises ApiError where too many of its requests have shown no key."""
        self._door.begin_keyless(sender)
        self._sender = sender

    def is_of(self, caller: Caller) -> None:
        """Say whose request it is. Raises ApiError where there are too many of this caller's."""
        self._leave_sender()
        before, held_bytes = self.tenant, self._held_bytes
        if self._counted and caller.tenant == before:
            return
        self._door.begin(caller.tenant)
        # It may have been another's: everyone is one tenant until the first key is made, also during a request.
        if self._counted:
            self._door.end(before)
        self._counted = True
        self._door.give_back(held_bytes, before)
        self._held_bytes, self.tenant = 0, caller.tenant
        self.hold(held_bytes)

    def end(self) -> None:
        """The request is answered."""
        self.release()
        self._leave_sender()
        if self._counted:
            self._door.end(self.tenant)

    def _leave_sender(self) -> None:
        if self._sender is not None:
            self._door.end_keyless(self._sender)
            self._sender = None

    def expect(self, headers: Mapping[bytes, str]) -> None:
        """Refuse what says itself that it is too large, and what says its length in two ways (RFC 9112, 6.3).

        A proxy that believes the other one would take the rest for somebody's next request.
        """
        content_length = headers.get(b"content-length")
        if content_length is not None and b"transfer-encoding" in headers:
            refused = ApiError(
                "malformed", "It has both a Content-Length and a Transfer-Encoding.", "Send one of them."
            )
            refused.headers = {"Connection": "close"}
            raise refused
        if content_length is not None and content_length.isdecimal() and int(content_length[:19]) > self._limit_bytes:
            raise self._too_large()

    async def receive(self) -> Message:
        """The next part, for the application."""
        if self._complete:
            return await self._receive()
        if self._deadline_s is None:
            self._deadline_s = time.monotonic() + self._limit_s
        try:
            async with asyncio.timeout(self._deadline_s - time.monotonic()):
                message = await self._receive()
        except TimeoutError:
            raise ApiError(
                "body-timeout", f"The body did not arrive within {self._limit_s:g} s.", "Send it faster, or less."
            ) from None
        if message["type"] != "http.request":
            self._complete = True
            return message
        size_bytes = len(message.get("body", b""))
        if self.taken_bytes + size_bytes > self._limit_bytes:
            raise self._too_large()
        self.hold(self._held_bytes + size_bytes)
        self.taken_bytes += size_bytes
        self._complete = not message.get("more_body", False)
        return message

    def hold(self, size_bytes: int) -> None:
        """What the body takes from now on, in whichever form. Raises ApiError where there is no room for it."""
        if size_bytes > self._door.share_bytes:
            raise ApiError(
                "too-large",
                f"Reading this body takes more than {self._door.share_bytes / (1 << 20):g} MiB.",
                "Send less at one time.",
            )
        if size_bytes > self._held_bytes:
            self._door.take(size_bytes - self._held_bytes, self.tenant)
        else:
            self._door.give_back(self._held_bytes - size_bytes, self.tenant)
        self._held_bytes = size_bytes

    def hold_up_to(self, size_bytes: int) -> None:
        """As `hold`, for what is in the store already, beside what is held: more than a share takes all of that."""
        self.hold(max(self._held_bytes, min(size_bytes, self._door.share_bytes)))

    def release(self) -> None:
        """The body is no longer on its way: what was in it is in the store, or refused."""
        self.hold(0)

    def _too_large(self) -> ApiError:
        limit = f"{self._limit_bytes / (1 << 20):g} MiB"
        return ApiError("too-large", f"The body is larger than {limit}.", "Send less at one time.")
