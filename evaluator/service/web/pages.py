"""Web pages: queues, workers and evaluations, one evaluation with its report, the problems.

A page is whole without JavaScript; with it, it stays up to date (server-sent events that carry ready-made HTML).
Everything stands in one file: a page loads nothing, and its content security policy lets in our one style sheet and
our one script by their hashes. Every text is escaped, unseen characters are written out.
"""

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse
from fastapi.routing import APIRoute
from pydantic import StringConstraints

from common.contract import ProblemFace, is_foreign_problem
from evaluator.errors import UnknownProblemError, UsageError
from evaluator.foreign.reference import remedy_for
from evaluator.problems.catalogue import find_problem, problems
from evaluator.report.html import article, listing, look
from evaluator.report.terminal import TIERS
from evaluator.service.storage.evaluations import EvaluationRepository, ForeignProblemRepository
from evaluator.service.storage.models import StoredEvaluation
from evaluator.service.storage.secrets import bearer_secret
from evaluator.service.storage.workers import WorkerRepository
from evaluator.service.web.forms import ForeignFormError, FormTokens, fields_of, of_this_site
from evaluator.service.web.query import RouteHandler, refusing_unknown
from evaluator.service.web.sse import Live, Moment
from evaluator.service.web.views import (
    STATUSES,
    Filters,
    Overview,
    dress,
    html_page,
    open_evaluations,
    overview,
    part,
    steps,
    trouble,
)

COOKIE = "assay_key"
"""Holds a key's secret for the session of a browser. Only the pages read it: with it one can look, and cancel."""

_Word: TypeAlias = Annotated[str, StringConstraints(max_length=300)]
_SHOWN_AT_ONCE = 1
"""Evaluations that are read for a page at one time: the largest takes 200 MiB."""
_PATIENCE_S = 2.0
"""How long a page waits for its turn; its thread is one of those that all pages share."""
_HEADERS = {
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
    "Vary": "Accept, Cookie, Authorization",
}


@dataclass(frozen=True)
class Viewer:
    """Who looks."""

    tenant: str | None
    """Whose evaluations are shown; None shows those of all."""
    signed_in: bool = False
    """Whether a key of a cookie let the viewer in."""
    token: str = field(default="", repr=False)
    """What the forms of this viewer's pages hold."""


class _SignInRequiredError(Exception):
    """Nobody may look at this without a key."""


class _RefusedProblemError(UsageError):
    """What the viewer sent as a problem can be none."""


class _BusyError(Exception):
    """Others are being shown what is asked for, and it was not this page's turn in time."""


def prefers_html(accept: str) -> bool:
    """Whether an Accept header asks for HTML rather than for JSON, as browsers do; `*/*` does not."""
    weights = {"text/html": 0.0, "application/json": 0.0}
    for one in accept.split(","):
        kind, *parameters = (piece.strip().lower() for piece in one.split(";"))
        found = re.fullmatch(r"q=([01](?:\.\d{0,3})?)", parameters[-1] if parameters else "")
        if kind in weights:
            weights[kind] = float(found.group(1)) if found else 1.0
    return weights["text/html"] > weights["application/json"]


class _PageRoute(APIRoute):
    """A route that is there only for those who prefer HTML; others come to the API's route of the same path."""

    def matches(self, scope: Any) -> Any:
        found, child = super().matches(scope)
        accept = b",".join(value for name, value in scope.get("headers", ()) if name == b"accept").decode("latin-1")
        return (found, child) if prefers_html(accept) else (type(found).NONE, {})

    def get_route_handler(self) -> RouteHandler:
        return refusing_unknown(self, _with_error_pages(super().get_route_handler()))


class _OwnRoute(APIRoute):
    """A route that the API does not have."""

    def get_route_handler(self) -> RouteHandler:
        return refusing_unknown(self, _with_error_pages(super().get_route_handler()))


def _with_error_pages(handler: RouteHandler) -> RouteHandler:
    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except _SignInRequiredError:
            return _sign_in_page(request.url.path + (f"?{request.url.query}" if request.url.query else ""))
        except ForeignFormError:
            return error_page(
                403, "Nothing was done", "This form came from another site, or its page is too old.", "Send it again."
            )
        except _BusyError as error:
            return error_page(503, "Too much is on its way", str(error), "Try again.")
        except UnknownProblemError as error:
            said = str(error)
            return error_page(404, "No such problem", f"{said[:1].upper()}{said[1:]}.", error.remedy)
        except _RefusedProblemError as error:
            return error_page(422, "This can be no problem", str(error), error.remedy)
        except UsageError as error:
            return error_page(400, "This address cannot be used", str(error), error.remedy)
        except RequestValidationError:
            return error_page(400, "This address cannot be used", "A part of it is too long or malformed.")

    return handle


@contextlib.contextmanager
def _in_turn(room: threading.BoundedSemaphore, busy: str) -> Iterator[None]:
    """Inside this context a page has its turn. Raises _BusyError, with these words, where it does not come."""
    if not room.acquire(timeout=_PATIENCE_S):
        raise _BusyError(busy)
    try:
        yield
    finally:
        room.release()


def error_page(status: int, title: str, message: str, remedy: str | None = None) -> HTMLResponse:
    """A small page that says what happened and what to do; `status` is that of HTTP."""
    return _page("error", Viewer(None), "caution", status, title=title, message=message, remedy=remedy, code=status)


def router(
    evaluations: EvaluationRepository,
    workers: WorkerRepository,
    foreign: ForeignProblemRepository,
    admit: Callable[[str | None], Viewer | None],
    secret: bytes,
    notify: Callable[[str], None] = lambda evaluation_id: None,
    stopping: Callable[[], bool] = lambda: False,
) -> APIRouter:
    """The routes of all pages, to be included before the API's own of the same paths.

    `admit` says who comes with a secret (of a cookie or a bearer header; None for neither): None asks for a key.
    `secret` makes the tokens of forms, `notify` is told what was cancelled, `stopping` ends the live streams.
    """
    return _Pages(evaluations, workers, foreign, admit, FormTokens(secret), notify, stopping).router()


class _Pages:
    def __init__(
        self,
        evaluations: EvaluationRepository,
        workers: WorkerRepository,
        foreign: ForeignProblemRepository,
        admit: Callable[[str | None], Viewer | None],
        tokens: FormTokens,
        notify: Callable[[str], None],
        stopping: Callable[[], bool],
    ) -> None:
        self._evaluations, self._workers, self._foreign, self._admit = evaluations, workers, foreign, admit
        self._tokens, self._notify = tokens, notify
        self._live = Live(stopping, _HEADERS)
        self._room = threading.BoundedSemaphore(_SHOWN_AT_ONCE)
        self._lists = threading.BoundedSemaphore(_SHOWN_AT_ONCE)

    def router(self) -> APIRouter:
        html = APIRouter(route_class=_PageRoute, include_in_schema=False)
        html.get("/evaluations/{evaluation_id}")(self.evaluation)
        html.get("/evaluations")(self.evaluations)
        html.get("/problems")(self.problem_list)
        html.get("/problems/{problem_id}")(self.problem)
        own = APIRouter(route_class=_OwnRoute, include_in_schema=False)
        own.get("/")(self.home)
        own.get("/live")(self.home_live)
        own.get("/evaluations/{evaluation_id}/live")(self.evaluation_live)
        own.get("/problems/{problem_id}/starter.cu")(self.starter)
        own.get("/cancel")(self.open_evaluations)
        own.post("/cancel")(self.cancel)
        own.post("/sign-in")(self.sign_in)
        own.post("/sign-out")(self.sign_out)
        own.include_router(html)
        return own

    def _viewer(self, request: Request) -> Viewer:
        bearer = bearer_secret(request.headers.get("authorization", ""))
        secret = request.cookies.get(COOKIE)
        if bearer is not None:
            viewer, credential = self._admit(bearer), bearer
        elif secret and (known := self._admit(secret)):
            viewer, credential = replace(known, signed_in=True), secret
        else:
            viewer, credential = self._admit(None), ""
        if viewer is None:
            raise _SignInRequiredError
        return replace(viewer, token=self._tokens.token(credential))

    def home(self, request: Request, status: _Word = "", problem: _Word = "", cursor: _Word = "") -> HTMLResponse:
        viewer, filters = self._viewer(request), Filters(status, problem, cursor)
        with _in_turn(self._lists, "Many lists are being shown."):
            found = overview(self._evaluations, self._workers, viewer.tenant, filters)
        return _page(
            "home",
            viewer,
            overview=found,
            filters=filters,
            statuses=STATUSES,
            problems=tuple(problems()),
            base=_base(request),
            stream="/live?" + filters.query(),
        )

    def home_live(self, request: Request, status: _Word = "", problem: _Word = "", cursor: _Word = "") -> Response:
        viewer, filters = self._viewer(request), Filters(status, problem, cursor)

        def look_again(before: Moment | None) -> Moment:
            known = before.source if before and isinstance(before.source, Overview) else None
            found = overview(self._evaluations, self._workers, viewer.tenant, filters, known)
            html = part("overview", overview=found, filters=filters, base=_base(request))
            return Moment(found.key, html, source=found)

        return self._live.answer((viewer.tenant, filters, _base(request)), look_again)

    def evaluations(self, status: _Word = "", problem: _Word = "", cursor: _Word = "") -> Response:
        query = Filters(status, problem, cursor).query()
        return RedirectResponse(f"/?{query}" if query else "/", 307, _HEADERS)

    def evaluation(self, request: Request, evaluation_id: _Word) -> HTMLResponse:
        viewer = self._viewer(request)
        with _in_turn(self._room, "Many evaluations are being shown."):
            return self._evaluation(viewer, evaluation_id)

    def _evaluation(self, viewer: Viewer, evaluation_id: str) -> HTMLResponse:
        stored = self._evaluations.get(evaluation_id, viewer.tenant)
        if stored is None:
            return _not_found(evaluation_id)
        source = stored.submission.source
        # A template's context lives until the garbage collector comes: it is not to keep a large source as long.
        stored = stored.without_source()
        if stored.verdict is None:
            listed = listing(source, "Source") if source else ""
            stream = f"/evaluations/{stored.id}/live"
            why = trouble(self._workers, stored)
            return _page("running", viewer, e=stored, steps=steps(stored), trouble=why, listing=listed, stream=stream)
        tone = look(stored.verdict.status)[0]
        return _page("done", viewer, tone, e=stored, report=article(stored.verdict, source))

    def evaluation_live(self, request: Request, evaluation_id: _Word) -> Response:
        viewer = self._viewer(request)

        def look_again(before: Moment | None) -> Moment:
            stored = before.source if before and isinstance(before.source, StoredEvaluation) else None
            if stored is None or self._evaluations.watch([stored.id]).get(stored.id, (-1, ""))[0] != stored.version:
                with self._room:
                    stored = self._evaluations.get(evaluation_id, viewer.tenant)
            if stored is None or stored.state == "done":
                return Moment(None, "", done=True)
            stored = stored.without_source()
            why = trouble(self._workers, stored)
            if before and before.key == (stored.version, why):
                return before
            return Moment(
                (stored.version, why), part("progress", e=stored, steps=steps(stored), trouble=why), source=stored
            )

        return self._live.answer((viewer.tenant, evaluation_id), look_again)

    def open_evaluations(self, request: Request, problem: _Word = "") -> HTMLResponse:
        viewer = self._viewer(request)
        with _in_turn(self._lists, "Many lists are being shown."):
            found = open_evaluations(self._evaluations, viewer.tenant, problem)
        return _page("cancel", viewer, found=found, problem=problem)

    async def cancel(self, request: Request) -> Response:
        viewer, fields = await run_in_threadpool(self._viewer, request), await fields_of(request)
        self._tokens.check(request, fields, viewer.token)
        chosen = list(dict.fromkeys(fields.get("evaluation", ())))
        if not chosen:
            return error_page(400, "Nothing was cancelled", "No evaluation was chosen.", "Choose one at least.")
        dropped = [one for one in chosen if await run_in_threadpool(self._drop, one, viewer.tenant)]
        if not dropped:
            return _not_found(chosen[0])
        return RedirectResponse(f"/evaluations/{dropped[0]}" if len(chosen) == 1 else "/", 303, _HEADERS)

    def _drop(self, evaluation_id: str, tenant: str | None) -> bool:
        found = self._evaluations.drop(evaluation_id, tenant) is not None
        self._notify(evaluation_id)
        return found

    def problem_list(self, request: Request) -> HTMLResponse:
        viewer = self._viewer(request)
        faces = [problem.face for problem in problems().values()]
        tiers = [(name, [face for face in faces if face.tier == tier]) for tier, name in enumerate(TIERS)]
        own = [one.face for one in self._foreign.list(viewer.tenant) if one.face is not None]
        return _page("problems", viewer, tiers=[*tiers, ("of your own", own)])

    def _face(self, viewer: Viewer, problem_id: str) -> ProblemFace:
        """Raises UnknownProblemError, and _RefusedProblemError for one of the viewer's own that was refused."""
        found = self._foreign.get(problem_id, viewer.tenant) if is_foreign_problem(problem_id) else None
        if found is None:
            return find_problem(problem_id).face
        if found.refusal is not None:
            raise _RefusedProblemError(found.refusal, remedy_for(found.refusal))
        if found.face is None:
            raise UnknownProblemError(f"{problem_id} has not been read yet", "Look again when a kernel was judged.")
        return found.face

    def problem(self, request: Request, problem_id: _Word) -> HTMLResponse:
        viewer = self._viewer(request)
        face = self._face(viewer, problem_id)
        starter = listing(face.starter, "Source to start from")
        return _page("problem", viewer, p=face, tier=TIERS[face.tier], starter=starter, base=_base(request))

    def starter(self, request: Request, problem_id: _Word) -> Response:
        face = self._face(self._viewer(request), problem_id)
        return PlainTextResponse(face.starter, headers=_HEADERS)

    async def sign_in(self, request: Request) -> Response:
        if not of_this_site(request):
            return error_page(
                403, "Not signed in", "This form came from another site.", "Sign in on a page of this one."
            )
        fields = {name: values[0] for name, values in (await fields_of(request)).items()}
        secret, target = fields.get("key", "").strip(), fields.get("next", "/")
        # A path of this server, and nothing that a browser could read as another host.
        if not re.fullmatch(r"/(?![/\\])[!-\[\]-~]*", target):
            target = "/"
        if not secret or not await run_in_threadpool(self._admit, secret):
            return _sign_in_page(target, "This is not a valid key: it may be mistyped, expired or revoked.")
        answer = RedirectResponse(target, 303, _HEADERS)
        # Lax, so that a link in a chat opens: of other sites' forms it stays away, and our pages are in no frame.
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, secret, httponly=True, samesite="lax", secure=secure, path="/")
        return answer

    async def sign_out(self, request: Request) -> Response:
        answer = RedirectResponse("/", 303, _HEADERS)
        if of_this_site(request):
            answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="lax")
        return answer


def _base(request: Request) -> str:
    return str(request.base_url).rstrip("/")


def _not_found(evaluation_id: str) -> HTMLResponse:
    return error_page(
        404,
        "No such evaluation",
        f"There is no evaluation {evaluation_id}, or it belongs to another key.",
        "Evaluations are kept for a while only: send the kernel again if it is an old one.",
    )


def _page(name: str, viewer: Viewer, tone: str = "", status: int = 200, **values: Any) -> HTMLResponse:
    headers = {**_HEADERS, "Content-Security-Policy": dress().policy}
    return HTMLResponse(html_page(name, tone, viewer=viewer, **values), status, headers)


def _sign_in_page(target: str, complaint: str | None = None) -> HTMLResponse:
    return _page("sign_in", Viewer(None), status=401, target=target, complaint=complaint)
