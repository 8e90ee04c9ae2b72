"""What all routes share: who asks, what they prefer, how JSON is read and written."""

import json
import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from common.wire import Json, Wire
from evaluator.service.admission import LOCAL_CALLER, Admission, Caller
from evaluator.service.metrics import Metrics
from evaluator.service.refusals import Refused
from evaluator.service.store import Store
from evaluator.service.watch import Watch
from evaluator.settings import ServiceSettings

_JSON: Json[object] = Json(object)


@dataclass(frozen=True)
class Service:
    """What the routes work with; `app.state.service`."""

    store: Store
    admission: Admission
    settings: ServiceSettings
    watch: Watch
    metrics: Metrics


@dataclass(frozen=True)
class Preference:
    """What a caller prefers (RFC 7240)."""

    wait_s: float
    """How long to wait for a verdict; 0 does not wait."""
    applied: str
    """What was understood, as `Preference-Applied` says it; empty where nothing was asked for."""


class JsonRoute(APIRoute):
    """A route whose JSON is read by the contract's own strict parser: bounded in depth, no lone surrogates."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def read(request: Request) -> Response:
            if self.body_field is not None:
                kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
                if kind != "application/json":
                    raise Refused(
                        "unsupported-media-type",
                        f"The body is said to be {kind[:80] or 'of no type'!r}.",
                        "Send JSON, with the header `Content-Type: application/json`.",
                    )
            return await handle(_JsonRequest(request.scope, request.receive))

        return read


class _JsonRequest(Request):
    async def json(self) -> Any:
        body = await self.body()
        try:
            return _JSON.load(body)
        except ValueError as error:
            said = re.search(r"Invalid JSON: (.*?)(?: \[type|$)", str(error), re.MULTILINE)
            raise json.JSONDecodeError(said[1] if said else "it cannot be read", "", 0) from None


_bearer = HTTPBearer(auto_error=False, description="A key of this service: `assay_…`. Not needed while it has none.")


# What asks no store is no plain function: the framework would give each a thread, which costs more than most of it.
async def _service(request: Request) -> Service:
    service = request.app.state.service
    assert isinstance(service, Service)
    return service


Here = Annotated[Service, Depends(_service)]


async def _caller(
    request: Request, service: Here, bearer: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Caller:
    known = getattr(request.state, "caller", None)  # the door has asked already
    if isinstance(known, Caller):
        return known
    if service.admission.known_open():
        return LOCAL_CALLER
    return await run_in_threadpool(service.admission.caller, bearer.credentials if bearer else None)


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
        wait_s = min(float(wait), service.settings.most_wait_s)
        return Preference(wait_s, f"wait={wait_s:g}")
    if "respond-async" in asked:
        return Preference(0, "respond-async")
    return Preference(service.settings.wait_s, "")


Preferred = Annotated[Preference, Depends(_preference)]


def as_json(document: Wire, status: int, headers: dict[str, str]) -> Response:
    """One of our documents as an answer."""
    return Response(document.model_dump_json(), status, headers, "application/json")
