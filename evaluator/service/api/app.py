"""The service's HTTP face: every route, and nothing of what they do beyond asking, waiting and answering."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import Annotated, Any, Literal

from fastapi import APIRouter, FastAPI, Query, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.openapi.utils import get_openapi

from common.contract import CONTRACT_VERSION, ProblemFace, is_foreign_problem
from evaluator import __version__
from evaluator.errors import StorageError
from evaluator.foreign.reference import remedy_for
from evaluator.problems.catalogue import find_problem, problems
from evaluator.service.api import docs_page, metrics, routes
from evaluator.service.api import schemas as documents
from evaluator.service.api.admission import Admission
from evaluator.service.api.callers import Authenticator, TenantTurns
from evaluator.service.api.dependencies import Here, JsonRoute, Known, Service, as_json
from evaluator.service.api.errors import KEYED, ApiError, Problem, documented, install
from evaluator.service.api.fleet import Fleet
from evaluator.service.api.middleware import RequestMiddleware
from evaluator.service.api.notifier import Notifier
from evaluator.service.api.request_body import Reader
from evaluator.service.api.schemas import BatchLine, Liveness, Readiness, Version
from evaluator.service.storage.storage import Storage
from evaluator.service.web import pages
from evaluator.service.workers.task import Announcer
from evaluator.settings import ServiceSettings

_LOOKING = 4
"""Threads that look for evaluations: one has a processor at a time, the others wait for a database."""


def create_app(
    storage: Storage, announcer: Announcer, settings: ServiceSettings, secret: bytes, watch: Notifier | None = None
) -> FastAPI:
    """The ASGI application. `secret` keys the reuse of verdicts and the forms of pages; `watch` may be given so that
    others can nudge it.
    """
    service = _service(storage, announcer, settings, secret, watch or Notifier(storage.evaluations))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        notifying = asyncio.create_task(service.watch.run())
        yield
        service.watch.close()
        notifying.cancel()
        with suppress(asyncio.CancelledError):
            await notifying

    app = FastAPI(
        title="Assay",
        version=__version__,
        summary="Grades CUDA kernels: a submission in, a verdict out.",
        lifespan=lifespan,
        openapi_url=None,  # as /docs, a route of our own (docs_page.py)
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # the address would be made of what the caller says this host is called
        telemetry={"tracing": False},
    )
    app.state.service = service
    problems()  # built now, and not while the first caller waits
    install(app, _error_page)
    admit = _viewers(service.authenticator)
    app.include_router(
        pages.router(
            storage.evaluations,
            storage.workers,
            storage.foreign,
            admit,
            secret,
            notify=service.watch.notify,
            stopping=lambda: service.watch.closed,
        )
    )
    app.include_router(docs_page.router(f"{app.title}: the API"))
    app.include_router(routes.router)
    app.include_router(_router)
    app.add_middleware(
        RequestMiddleware,
        authenticator=service.authenticator,
        admission=service.admission,
        settings=settings,
        metrics=service.metrics,
        page=_error_page,
    )
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _service(
    storage: Storage, announcer: Announcer, settings: ServiceSettings, secret: bytes, watch: Notifier
) -> Service:
    here = [storage.database.folder, settings.data_dir if settings.workers > 0 and not settings.broker_url else None]
    fleet = Fleet(storage.workers, tuple(folder for folder in here if folder is not None))
    return Service(
        evaluations=storage.evaluations,
        foreign=storage.foreign,
        authenticator=Authenticator(storage.keys, settings.require_keys),
        admission=Admission(storage.submissions, fleet, announcer, settings, secret),
        fleet=fleet,
        settings=settings,
        watch=watch,
        metrics=metrics.Metrics(storage.evaluations, storage.workers, storage.counters),
        reader=Reader(),
        looking=ThreadPoolExecutor(_LOOKING, "looking"),
        listing=ThreadPoolExecutor(1, "listing"),
        list_turns=TenantTurns(),
    )


_router = APIRouter(route_class=JsonRoute)


@_router.get(
    "/problems",
    tags=["problems"],
    response_model=list[ProblemFace],
    responses=documented("invalid-request", *KEYED),
)
async def list_problems(
    service: Here,
    caller: Known,
    stated_by: Annotated[
        Literal["assay", "caller"],
        Query(description="`caller`: those that you have sent as references, as far as they have been read."),
    ] = "assay",
) -> Response:
    """What can be graded here, from the basic to the advanced; or your own, those used last first."""
    if stated_by == "assay":
        return Response(_problem_list(), 200, {}, "application/json")
    found = await run_in_threadpool(service.foreign.list, caller.sees)
    faces = ",".join(one.face.model_dump_json() for one in found if one.face is not None)
    return Response(f"[{faces}]", 200, {}, "application/json")


@_router.get(
    "/problems/{problem_id}",
    tags=["problems"],
    response_model=ProblemFace,
    responses=documented("not-found", "invalid-request", "problem-refused", *KEYED),
)
async def get_problem(problem_id: str, service: Here, caller: Known) -> Response:
    """All that the author of a kernel needs to know about one problem."""
    if is_foreign_problem(problem_id):
        return as_json(await run_in_threadpool(_face_of_callers_own, service, problem_id, caller.sees), 200, {})
    if problem_id not in problems():
        raise ApiError("not-found", f"There is no problem {problem_id[:100]!r}.", "GET /problems lists them.")
    return as_json(find_problem(problem_id).face, 200, {})


def _face_of_callers_own(service: Service, problem_id: str, sees: str | None) -> ProblemFace:
    """Raises ApiError where it is not known, not read yet, or refused."""
    found = service.foreign.get(problem_id, sees)
    if found is None:
        raise ApiError(
            "not-found",
            f"You have sent no problem {problem_id[:100]!r}.",
            "POST /evaluate with it as `reference`; those that are not used are forgotten after a while.",
        )
    if found.refusal is not None:
        raise ApiError("problem-refused", found.refusal, remedy_for(found.refusal))
    if found.face is None:
        raise ApiError(
            "not-found", f"{problem_id} has not been read yet.", "Ask again when its first kernel is judged."
        )
    return found.face


@_router.get(
    "/livez", tags=["operation"], response_model=Liveness, responses=documented("misdirected", "invalid-request")
)
async def livez() -> Response:
    """Whether this process answers at all."""
    return as_json(Liveness(), 200, {})


@_router.get(
    "/readyz",
    tags=["operation"],
    response_model=Readiness,
    responses={
        503: {"model": Readiness, "description": "Not now: the reason is in it."},
        **documented("misdirected", "invalid-request"),
    },
)
async def readyz(service: Here) -> Response:
    """Whether an evaluation that came now would be judged: one that may run anywhere, and on each backend."""
    lacking = await run_in_threadpool(service.fleet.lacking)
    if service.watch.closed:
        lacking = dict.fromkeys(lacking, "The server is stopping.")
    reason = lacking["auto"]
    ready = Readiness(ready=reason is None, reason=reason, backends={"gpu": lacking["gpu"], "sim": lacking["sim"]})
    return as_json(ready, 200 if ready.ready else 503, {} if ready.ready else {"Retry-After": "2"})


@_router.get(
    "/version", tags=["operation"], response_model=Version, responses=documented("misdirected", "invalid-request")
)
async def version(service: Here) -> Response:
    """What runs here, and which keys its verdicts are signed with."""
    keys: tuple[str, ...] | None = None
    with suppress(StorageError):
        fleet = await run_in_threadpool(service.fleet.workers)
        keys = tuple(sorted({worker.signing_key for worker in fleet if worker.signing_key}))
    return as_json(Version(assay=__version__, contract=CONTRACT_VERSION, signing_keys=keys), 200, {})


@_router.get(
    "/metrics",
    tags=["operation"],
    response_class=Response,
    responses={
        200: {
            "description": "Prometheus's text format. Needs an admin's key where there are keys.",
            "content": {"text/plain": {"schema": {"type": "string"}, "example": 'assay_queue_depth{queue="sim"} 0'}},
        },
        **documented("forbidden", "invalid-request", *KEYED),
    },
)
async def read_metrics(service: Here, caller: Known) -> Response:
    """Counters and durations, for Prometheus."""
    if not caller.admin:
        raise ApiError("forbidden", "The metrics are about everyone's evaluations.", "Use an admin's key.")
    return Response(await run_in_threadpool(service.metrics.render), 200, {}, metrics.MEDIA_TYPE)


@cache
def _problem_list() -> str:
    return f"[{','.join(problem.face.model_dump_json() for problem in problems().values())}]"


def _error_page(accept: str, refused: ApiError) -> Response | None:
    """A refusal for a browser's window; None for everyone else."""
    if not pages.prefers_html(accept):
        return None
    page = pages.error_page(refused.status_code, refused.title, str(refused.detail), refused.remedy)
    page.headers.update(refused.headers or {})
    return page


def _viewers(authenticator: Authenticator) -> Callable[[str | None], pages.Viewer | None]:
    def admit(secret: str | None) -> pages.Viewer | None:
        try:
            caller = authenticator.caller(secret)
        except ApiError:
            return None
        return pages.Viewer(caller.sees)

    return admit


def _openapi(app: FastAPI) -> dict[str, Any]:
    """The framework's document, with the schemas that only refusals and streams speak of."""
    if app.openapi_schema is None:
        found = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        schemas = found["components"]["schemas"]
        for document in (Problem, BatchLine):
            schema = document.model_json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
            schemas.update({name: one for name, one in schema.pop("$defs", {}).items() if name not in schemas})
            schemas[document.__name__] = schema
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        operations = [operation for methods in found["paths"].values() for operation in methods.values()]
        answers = [answer for operation in operations for answer in operation["responses"].values()]
        for content in [kind for answer in answers for kind in answer.get("content", {}).values()]:
            for example in content.get("examples", {}).values():
                example["value"] = documents.WHOLE.get(example["summary"], example["value"])
        app.openapi_schema = found
    return app.openapi_schema
