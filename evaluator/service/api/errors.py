"""What the service refuses, and in which words: an RFC 9457 problem for whatever is not what was asked for."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import HTTPException, RequestValidationError
from fastapi.responses import Response
from pydantic import Field
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.routing import Match

from common.wire import Wire
from evaluator.errors import AssayError, StorageError, UnknownProblemError, UsageError
from evaluator.service import logs
from evaluator.service.storage.models import (
    IdempotencyConflictError,
    NoWorkerError,
    QueueFullError,
    QuotaExceededError,
    TooManyProblemsError,
)
from evaluator.validation_messages import in_plain_words

MEDIA_TYPE: Final = "application/problem+json"
AGAIN: Final = "Send it again; where that fails as well, tell the operator the request's id."
"""The remedy for mistakes of the service."""
KEYED: Final = ("unauthorized", "misdirected", "busy", "storage", "internal")
"""The refusals of every route that asks for a key."""
_LOG = logs.logger("refusals")
_MAX_CHARS = 1000
_TYPE = "urn:assay:problem:"
_METHODS = ("DELETE", "GET", "POST")
"""Those of all routes; HEAD is answered wherever GET is."""

_TITLES: Final[Mapping[str, tuple[int, str]]] = {
    "malformed": (400, "This is no HTTP request that can be understood"),
    "unauthorized": (401, "A key is needed"),
    "forbidden": (403, "This key may not do that"),
    "not-found": (404, "There is nothing here"),
    "method-not-allowed": (405, "This cannot be done here"),
    "body-timeout": (408, "The request took too long to arrive"),
    "too-large": (413, "The body is too large"),
    "unsupported-media-type": (415, "The body is not JSON"),
    "misdirected": (421, "This server is not meant"),
    "invalid-request": (422, "The request cannot be used"),
    "unknown-problem": (422, "There is no such problem"),
    "problem-refused": (422, "This can be no problem"),
    "idempotency-clash": (422, "This Idempotency-Key was used for another request"),
    "quota-exceeded": (429, "The quota of this key is used up"),
    "internal": (500, "The service made a mistake"),
    "no-references": (501, "This service takes no problems of its callers' own"),
    "queue-full": (503, "The queue is full"),
    "no-worker": (503, "No worker can serve this now"),
    "busy": (503, "Too much is on its way"),
    "storage": (503, "The service cannot store anything now"),
}


class Problem(Wire):
    """Why a request was refused, as RFC 9457 has it."""

    type: str
    """What kind of refusal: `urn:assay:problem:` and one of a closed list of names."""
    title: str
    """The same in words."""
    status: int = Field(ge=400, le=599)
    """The HTTP status of the answer."""
    detail: str
    """What happened, where."""
    remedy: str | None = None
    """What to do about it."""
    request_id: str | None = None
    """The id under which the service's logs know this request."""


class ApiError(HTTPException):
    """A request is refused. Raised anywhere below the API; becomes a `Problem`."""

    def __init__(self, name: str, detail: str, remedy: str | None = None, retry_after_s: float | None = None) -> None:
        status, self.title = _TITLES[name]
        headers = {"Retry-After": str(max(1, math.ceil(retry_after_s)))} if retry_after_s is not None else {}
        if name == "unauthorized":
            headers["WWW-Authenticate"] = 'Bearer realm="assay"'
        super().__init__(status, detail, headers)
        self.name = name
        self.remedy = remedy

    def problem(self, request_id: str | None = None) -> Problem:
        """The wire form."""
        return Problem(
            type=_TYPE + self.name,
            title=self.title,
            status=self.status_code,
            detail=_bounded(str(self.detail)),
            remedy=self.remedy,
            request_id=request_id,
        )

    def response(self, request_id: str | None = None) -> Response:
        """The answer."""
        text = self.problem(request_id).model_dump_json(exclude_none=True)
        return Response(text, self.status_code, self.headers, MEDIA_TYPE)


def refusal_of(error: AssayError) -> ApiError:
    """An error of the evaluator as an answer to a caller."""
    if isinstance(error, UnknownProblemError):
        return ApiError("unknown-problem", _sentence(str(error)), error.remedy and _sentence(error.remedy))
    if isinstance(error, IdempotencyConflictError):
        return ApiError("idempotency-clash", str(error), error.remedy)
    if isinstance(error, QueueFullError):
        return ApiError("queue-full", str(error), error.remedy, error.retry_after_s)
    if isinstance(error, NoWorkerError):
        return ApiError("no-worker", str(error), error.remedy, error.retry_after_s)
    if isinstance(error, QuotaExceededError | TooManyProblemsError):
        return ApiError("quota-exceeded", str(error), error.remedy, error.retry_after_s)
    if isinstance(error, UsageError):
        return ApiError("invalid-request", str(error), error.remedy)
    if isinstance(error, StorageError):
        # Its words name hosts and paths of ours: they are for the log.
        return ApiError("storage", "The service's database cannot be used now.", "Try again.", retry_after_s=2)
    return ApiError("internal", "Something of the service failed; it is logged under this request's id.", AGAIN)


Page: TypeAlias = Callable[[str, ApiError], Response | None]
"""Makes a page of a refusal for those whose Accept header asks for one; None for everyone else."""


def install(app: FastAPI, page: Page) -> None:
    """Every error that leaves a route of `app` becomes a `Problem`, or what `page` makes of it."""

    def answer_with(refuse: Callable[[Exception], ApiError]) -> Callable[[Request, Exception], Any]:
        async def answer(request: Request, error: Exception) -> Response:
            refused = refuse(error)
            if refused.name == "method-not-allowed":
                _tell_methods(refused, request)
            if isinstance(error, AssayError) and refused.status_code >= 500:
                _LOG.warning("refused for a fault of ours", error=str(error), remedy=error.remedy)
            accept = request.headers.get("accept", "")
            return page(accept, refused) or refused.response(request.state.request_id)

        return answer

    app.add_exception_handler(ApiError, answer_with(lambda error: cast(ApiError, error)))
    app.add_exception_handler(AssayError, answer_with(lambda error: refusal_of(cast(AssayError, error))))
    app.add_exception_handler(RequestValidationError, answer_with(_invalid))
    app.add_exception_handler(StarletteHTTPException, answer_with(_plain))


def documented(*names: str) -> dict[int | str, dict[str, Any]]:
    """The refusals of a route, for its OpenAPI page."""
    told: dict[int | str, dict[str, Any]] = {}
    for name in names:
        status, title = _TITLES[name]
        entry = told.setdefault(status, {"description": title, "content": {MEDIA_TYPE: {"schema": _REFERENCE}}})
        examples = entry["content"][MEDIA_TYPE].setdefault("examples", {})
        example = Problem(type=_TYPE + name, title=title, status=status, detail=f"{title}: the reason stands here.")
        examples[name] = {"summary": title, "value": example.model_dump(exclude_none=True)}
        if status in (429, 503):
            entry["headers"] = {"Retry-After": _RETRY_AFTER}
        entry["description"] = "; ".join(one["summary"] for one in examples.values())
    return told


_RETRY_AFTER = {"description": "Seconds to wait before the next try.", "schema": {"type": "integer", "minimum": 1}}
_REFERENCE = {"$ref": "#/components/schemas/Problem"}


def _invalid(error: Exception) -> ApiError:
    found = [dict(one) for one in cast(RequestValidationError, error).errors()]
    for one in found:
        source, *place = one["loc"]
        one["loc"] = tuple(place) if source == "body" and one["type"] != "json_invalid" else (str(source), *place[:1])
        if one["type"] == "json_invalid":
            one["loc"] = ()
    words = in_plain_words(cast(Any, RequestValidationError(found)))
    if words.startswith("it "):
        words = f"The body {words[3:]}"
    return ApiError("invalid-request", words, "/docs shows what a request may hold.")


def _plain(error: Exception) -> ApiError:
    """What the framework itself raises: unknown paths and methods, bodies that cannot be read."""
    http = cast(StarletteHTTPException, error)
    name = {404: "not-found", 405: "method-not-allowed", 413: "too-large"}.get(http.status_code)
    if name is None:
        name = "malformed" if http.status_code < 500 else "internal"
    said = "This service has nothing at this path." if name == "not-found" else f"{http.detail}."
    refused = ApiError(
        name, said, AGAIN if name == "internal" else "/docs shows what it has, and what each path takes."
    )
    refused.headers = {**(refused.headers or {}), **(http.headers or {})}
    return refused


def _tell_methods(refused: ApiError, request: Request) -> None:
    """The framework knows the methods of the first route of a path only."""
    found = {
        method
        for method in _METHODS
        for route in request.app.routes
        if route.matches({**request.scope, "method": method})[0] is Match.FULL
    }
    allowed = ", ".join(sorted(found | ({"HEAD"} if "GET" in found else set())))
    refused.detail = f"This path knows other methods: {allowed}."
    refused.headers = {"Allow": allowed}


def _bounded(text: str) -> str:
    """Whatever of the request is quoted, the answer stays small."""
    return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]} ..."


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.?')}{'?' if text.endswith('?') else '.'}"
