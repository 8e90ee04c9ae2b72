"""What all routes share: who asks, what they prefer, how JSON is read and written."""

import asyncio
import contextvars
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Generic, get_args

from fastapi import Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPBearer
from pydantic import GetCoreSchemaHandler
from pydantic_core.core_schema import CoreSchema, is_instance_schema, json_or_python_schema

from common.wire import Wire, as_bytes
from evaluator.errors import StorageError
from evaluator.service.api.admission import Admission
from evaluator.service.api.callers import LOCAL_CALLER, Authenticator, Caller, TenantTurns
from evaluator.service.api.errors import ApiError
from evaluator.service.api.fleet import Fleet
from evaluator.service.api.metrics import Metrics
from evaluator.service.api.notifier import Notifier, Subscription
from evaluator.service.api.request_body import Document, Reader
from evaluator.service.storage.evaluations import EvaluationRepository, ForeignProblemRepository
from evaluator.service.storage.models import Page, StoredEvaluation
from evaluator.service.storage.secrets import bearer_secret
from evaluator.service.web.query import KnownQueryRoute, RouteHandler
from evaluator.settings import ServiceSettings


@dataclass(frozen=True)
class Service:
    """What the routes work with; `app.state.service`."""

    evaluations: EvaluationRepository
    foreign: ForeignProblemRepository
    authenticator: Authenticator
    admission: Admission
    fleet: Fleet
    settings: ServiceSettings
    watch: Notifier
    metrics: Metrics
    reader: Reader
    looking: ThreadPoolExecutor
    """Threads that look for evaluations: few, because the database may read a large one to say how large it is."""
    listing: ThreadPoolExecutor
    """The thread that reads lists. One is read at a time: who waits for that must not wait in a thread that others
    need."""
    list_turns: TenantTurns
    """One page of each tenant at a time."""

    async def look(
        self, evaluation_id: str, sees: str | None, max_chars: int | None = None
    ) -> StoredEvaluation | None:
        """As `EvaluationRepository.get`, in a thread."""
        get = partial(contextvars.copy_context().run, self.evaluations.get, evaluation_id, sees, max_chars)
        return await asyncio.get_running_loop().run_in_executor(self.looking, get)

    async def page(self, caller: Caller, **chosen: Any) -> Page:
        """As `EvaluationRepository.list`, of what this caller sees; tenants take turns."""
        read = partial(contextvars.copy_context().run, self.evaluations.list, caller.sees, **chosen)
        async with self.list_turns.of(caller.tenant):
            return await asyncio.get_running_loop().run_in_executor(self.listing, read)

    async def why_ended(self, caller: Caller) -> ApiError | None:
        """For those who wait: the refusal of a caller whose key has ended meanwhile."""
        try:
            await asyncio.get_running_loop().run_in_executor(self.looking, self.authenticator.ensure_still, caller)
        except ApiError as refused:
            return refused
        except StorageError:  # it is asked again soon
            return None
        return None

    async def first_news(self, caller: Caller, follower: Subscription, wait_s: float, every_s: float) -> None:
        """Returns with the first news, or when the time is up.

        Raises ApiError where the key of `caller` has ended, for which it looks every `every_s`.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + wait_s
        while (left_s := deadline_s - loop.time()) > 0 and not self.watch.closed:
            news = await follower.next(min(every_s, left_s))
            if ended := await self.why_ended(caller):
                raise ended
            if news:
                return


@dataclass(frozen=True)
class Preference:
    """What a caller prefers (RFC 7240)."""

    wait_s: float
    """How long to wait for a verdict; 0 does not wait."""
    applied: str
    """What was understood, as `Preference-Applied` says it; empty where nothing was asked for."""


class Arrived(Generic[Document]):
    """A body that was read: its document, to be taken out once, so that nothing keeps it while its caller waits."""

    def __init__(self, document: Document) -> None:
        self._document: Document | None = document

    def take(self) -> Document:
        """The document."""
        document, self._document = self._document, None
        assert document is not None
        return document

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # The framework's page describes the document; the route is given the instance that `JsonRoute` made.
        return json_or_python_schema(handler.generate_schema(*get_args(source)), is_instance_schema(cls))


class JsonRoute(KnownQueryRoute):
    """A route whose body, where it has one, is an `Arrived` document, read by `service.reader`."""

    def get_route_handler(self) -> RouteHandler:
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle
        (kind,) = get_args(self.body_field.field_info.annotation)

        async def read(request: Request) -> Response:
            coding = request.headers.get("content-encoding", "identity").strip().lower()
            if coding != "identity":
                refused = ApiError(
                    "unsupported-media-type",
                    f"The body is encoded as {coding[:80]!r}.",
                    "Send it as it is, without a Content-Encoding.",
                )
                refused.headers = {"Accept-Encoding": "identity"}  # RFC 9110, 15.5.16
                raise refused
            named = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if named != "application/json":
                raise ApiError(
                    "unsupported-media-type",
                    f"The content type of the body is {named[:80] or 'of no type'!r}.",
                    "Send JSON, with the header `Content-Type: application/json`.",
                )
            return await handle(_JsonRequest(request, kind))

        return read


class _JsonRequest(Request):
    def __init__(self, request: Request, kind: type[Wire]) -> None:
        super().__init__(request.scope, request.receive)
        self._kind = kind

    async def body(self) -> bytes:
        return b"read by json()"  # the framework would keep the body itself until it is answered

    async def json(self) -> Arrived[Wire]:
        body = bytearray()
        async for part in self.stream():
            body += part
        service, caller = await _service(self), self.state.caller
        return Arrived(await service.reader.read(body, self._kind, caller.tenant, self.state.body.hold))


_BEARER = HTTPBearer(auto_error=False, description="A key of this service: `assay_…`. Not needed while it has none.")
"""For the framework's page alone: the header is read by `bearer_secret`, as it is everywhere."""


# What asks no store is no plain function: the framework would give each a thread, which costs more than most of it.
async def _service(request: Request) -> Service:
    service = request.app.state.service
    assert isinstance(service, Service)
    return service


Here = Annotated[Service, Depends(_service)]


async def _caller(request: Request, service: Here, documented: Annotated[object, Depends(_BEARER)]) -> Caller:
    known = getattr(request.state, "caller", None)  # the door has asked already
    if isinstance(known, Caller):
        return known
    if service.authenticator.known_open():
        caller = LOCAL_CALLER
    else:
        secret = bearer_secret(request.headers.get("authorization", ""))
        caller = await run_in_threadpool(service.authenticator.caller, secret or None)
    request.state.body.is_of(caller)  # whose share of the room its answer takes; nothing was read yet
    return caller


Known = Annotated[Caller, Depends(_caller)]


async def _preference(request: Request, service: Here) -> Preference:
    """Read all `Prefer` headers; what is not understood is ignored, as RFC 7240 wants."""
    asked: dict[str, str] = {}
    for header in request.headers.getlist("prefer"):
        for part in header.split(","):
            name, _, value = part.partition(";")[0].partition("=")
            asked.setdefault(name.strip().lower(), value.strip().strip('"'))
    wait = asked.get("wait", "")
    if re.fullmatch("[0-9]{1,9}", wait):
        wait_s = min(float(wait), service.settings.max_wait_s)
        return Preference(wait_s, f"wait={wait_s:g}")
    if "respond-async" in asked:
        return Preference(0, "respond-async")
    return Preference(service.settings.wait_s, "")


Preferred = Annotated[Preference, Depends(_preference)]


def as_json(document: Wire, status: int, headers: dict[str, str]) -> Response:
    """One of our documents as an answer."""
    return Response(as_bytes(document), status, headers, "application/json")


async def gone(request: Request) -> None:
    """Returns when the caller has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
