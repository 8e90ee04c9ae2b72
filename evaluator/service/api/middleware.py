"""What every request passes before any route: its id, bounds on its body, a line in the log, its metrics."""

import asyncio
import re
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeAlias

from evaluator.errors import AssayError
from evaluator.service import logs
from evaluator.service.api.admission import Admission
from evaluator.service.api.callers import LOCAL_CALLER, Authenticator, Caller
from evaluator.service.api.errors import ApiError, Page, refusal_of
from evaluator.service.api.metrics import Metrics
from evaluator.service.storage.secrets import bearer_secret
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

_LOG = logs.logger("http")
_SANE_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
_OURS = (b"x-request-id", b"x-content-type-options")
_LOOPBACK = re.compile(r"(localhost|[\w-]+\.localhost|127\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}|\[::1\])(:[0-9]{1,5})?")


class _Answer:
    """What goes out, with the headers that every answer has."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send, self._request_id = send, request_id
        self.status = 0
        """0 until the answer has begun."""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = [one for one in message.get("headers", ()) if one[0].lower() not in _OURS]
            message["headers"] = [
                *given,
                (b"x-request-id", self._request_id.encode("latin-1")),
                (b"x-content-type-options", b"nosniff"),
            ]
        await self._send(message)


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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. Nothing escapes: what nobody foresaw is logged and answered with a `Problem`."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        named = headers.get(b"x-request-id", "")
        request_id = named if _SANE_ID.fullmatch(named) else f"req_{secrets.token_urlsafe(12)}"
        scope.setdefault("state", {})["request_id"] = request_id
        started_s = time.monotonic()
        answer = _Answer(send, request_id)

        async def refuse(refused: ApiError) -> None:
            if not answer.status:
                told = self._page(headers.get(b"accept", ""), refused) or refused.response(request_id)
                await told(scope, receive, answer.send)

        body = Body(self, receive, self._limit_bytes(scope), self._settings.receive_s)
        with logs.bound(request_id=request_id):
            try:
                await self._admit(scope, headers, body)
                await self._app(scope, body.receive, answer.send)
            except ApiError as refused:
                await refuse(refused)
            except Exception as error:
                _LOG.error("unforeseen", exc_info=error)
                await refuse(ApiError("internal", f"Something of the service failed; it is logged as {request_id}."))
            finally:
                body.release()
                self._record(scope, body, answer.status, time.monotonic() - started_s)

    async def _admit(self, scope: Scope, headers: dict[bytes, str], body: "Body") -> None:
        """Refuse what can be refused before a byte of the body is read. Raises ApiError."""
        await self._look(headers)
        body.expect(headers)
        scope["state"]["body"] = body
        if scope["method"] == "POST" and scope["path"] in SUBMIT_PATHS:
            # Before the body: who has no key takes no memory, and nobody takes another's share of it.
            caller = await self._caller(headers.get(b"authorization", ""))
            scope["state"]["caller"] = caller
            body.tenant = caller.tenant
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
        self.taken_bytes = 0
        self.tenant = ""
        """Whose share of the room for bodies it takes; empty for those whom nobody asked for a key."""

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
        """As `hold`, for what is in the store already: where it takes more than a share, it takes all of that."""
        self.hold(min(size_bytes, self._door.share_bytes))

    def release(self) -> None:
        """The body is no longer on its way: what was in it is in the store, or refused."""
        self.hold(0)

    def _too_large(self) -> ApiError:
        limit = f"{self._limit_bytes / (1 << 20):g} MiB"
        return ApiError("too-large", f"The body is larger than {limit}.", "Send less at one time.")
