"""The routes of evaluations: submit one or many, ask for them, follow them, drop them."""

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Body, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from fastapi.sse import EventSourceResponse, format_sse_event

from common.contract import Evaluation, Status, Submission, Verdict
from evaluator import __version__
from evaluator.service.api import schemas
from evaluator.service.api.callers import Caller
from evaluator.service.api.dependencies import (
    Arrived,
    Here,
    JsonRoute,
    Known,
    Preference,
    Preferred,
    Service,
    as_json,
    gone,
)
from evaluator.service.api.errors import KEYED, ApiError, documented
from evaluator.service.api.middleware import BATCH_PATH
from evaluator.service.api.schemas import Batch, BatchAnswer, BatchLine, Listing, ndjson, summary
from evaluator.service.storage.models import Accepted, LargeEvaluationError, StoredEvaluation

HEARTBEAT_S: Final = 15.0
NDJSON: Final = "application/x-ndjson"

_SMALL_CHARS: Final = 256 << 10
"""Up to this an evaluation is read and answered without asking for room: several times a kernel and its verdict."""
_BYTES_OF_A_CHAR: Final = 12
"""What reading an evaluation takes: its row and its source at up to four bytes a character, the answer, and what is
between them."""
_NO_ROOM_S: Final = 0.5
"""When a line of a batch asks again for room."""
_ID = re.compile(r"ev_[A-Za-z0-9_-]{22}")
_LAST_EVENT = re.compile(r"[0-9]{1,15}")
_PRINTABLE = r"^[\x21-\x7e]{1,200}$"
_POSTED: Final = (
    *("malformed", "unauthorized", "body-timeout", "too-large", "unsupported-media-type", "misdirected"),
    *("invalid-request", "unknown-problem", "idempotency-clash", "quota-exceeded"),
    *("no-references", "queue-full", "no-worker", "busy", "storage", "internal"),
)

_KNOWN: Final = {"description": "It is done and has not changed: `If-None-Match` names its `ETag`."}

router = APIRouter(tags=["evaluations"], route_class=JsonRoute)

Fresh = Annotated[bool, Query(description="Grade it again, even where there is a verdict for the same submission.")]
Idempotency = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=_PRINTABLE,
        description="The same key with the same body is the same evaluation, however often it is sent.",
    ),
]
Prefer = Annotated[
    str | None, Header(description="`wait=N`: answer after N seconds at the latest; `respond-async`: at once.")
]


def _evaluated(status: int, said: str, examples: dict[str, Any]) -> dict[int | str, dict[str, Any]]:
    headers = {
        "Preference-Applied": {"description": "What of `Prefer` was honoured.", "schema": {"type": "string"}},
        "X-Assay-Reused": {"description": "`true` where it was there before.", "schema": {"type": "string"}},
    }
    if status == 202:
        headers["Location"] = {"description": "Where to ask for it.", "schema": {"type": "string"}}
    content = {"application/json": {"examples": examples}}
    return {status: {"model": Evaluation, "description": said, "headers": headers, "content": content}}


@router.post(
    "/evaluate",
    response_model=Evaluation,
    responses={
        **_evaluated(200, "It is judged: the verdict is in it.", schemas.DONE),
        **_evaluated(202, "It is accepted and not yet judged.", schemas.WAITING),
        **documented(*_POSTED),
    },
)
async def evaluate(
    request: Request,
    service: Here,
    caller: Known,
    preference: Preferred,
    submission: Annotated[Arrived[Submission], Body(openapi_examples=schemas.SUBMISSION_EXAMPLES)],
    idempotency_key: Idempotency = None,
    prefer: Prefer = None,
    fresh: Fresh = False,
) -> Response:
    """Grade one kernel. Waits up to 60 seconds for the verdict, or as `Prefer` says."""
    accepted = await service.admission.accept(
        submission.take(),
        caller,
        idempotency_key=idempotency_key,
        fresh=fresh,
        request_id=request.state.request_id,
    )
    stored, created = accepted.evaluation, accepted.created
    del accepted
    if stored.state != "done" and preference.wait_s > 0:
        known = _Known.of(stored)
        del stored  # its source may be large, and the wait long
        request.state.body.release()
        stored = await _awaited(service, request, caller, known, preference.wait_s)
    answer = _evaluation(stored, 200 if stored.state == "done" else 202, preference)
    if answer.status_code == 202:
        answer.headers["Location"] = stored.evaluation().links["self"]
    if not created:
        answer.headers["X-Assay-Reused"] = "true"
    return answer


@router.post(
    BATCH_PATH,
    response_class=Response,
    responses={
        200: {
            "description": "One line for each submission, as they finish; empty lines are heartbeats.",
            "content": {
                NDJSON: {"schema": {"$ref": "#/components/schemas/BatchLine"}, "example": schemas.LINES},
            },
        },
        202: {"model": BatchAnswer, "description": "With `Prefer: respond-async`: what came of each, at once."},
        **documented(*_POSTED),
    },
)
async def evaluate_batch(
    request: Request,
    service: Here,
    caller: Known,
    preference: Preferred,
    batch: Annotated[Arrived[Batch], Body(openapi_examples=schemas.BATCH_EXAMPLES)],
    idempotency_key: Idempotency = None,
    prefer: Prefer = None,
    fresh: Fresh = False,
) -> Response:
    """Grade many kernels. Streams until all are done, unless `Prefer: wait=N` ends it before.

    The n-th submission counts, for idempotency, as if it had been sent alone with the key `KEY/n`. Where
    nothing could be accepted, the first refusal is the answer.
    """
    is_waited_for = preference.applied != "respond-async"
    taken = await service.admission.accept_all(
        batch.take().submissions,
        caller,
        idempotency_key,
        fresh,
        request.state.request_id,
        # Of what was taken in, which may be large, only the ids; but what was just sent has its room already.
        lambda one: _Known.of(one.evaluation) if is_waited_for or one.evaluation.verdict else one,
    )
    if all(isinstance(one, ApiError) for one in taken) and isinstance(taken[0], ApiError):
        raise taken[0]
    applied = {"Preference-Applied": preference.applied} if preference.applied else {}
    if not is_waited_for:
        return StreamingResponse(_items(service, taken, request), 202, applied, "application/json")
    request.state.body.release()
    wait_s = preference.wait_s if preference.applied else float("inf")
    known = [one for one in taken if not isinstance(one, Accepted)]
    return StreamingResponse(_stream(service, caller, known, wait_s, request), 200, applied, NDJSON)


@router.get(
    "/evaluations",
    response_model=Listing,
    responses={
        200: {"content": {"application/json": {"examples": schemas.LISTED}}},
        **documented("invalid-request", *KEYED),
    },
)
async def list_evaluations(
    service: Here,
    caller: Known,
    state: Literal["queued", "running", "done"] | None = None,
    status: Status | None = None,
    problem: Annotated[str | None, Query(pattern=r"^[A-Za-z0-9_.-]{1,100}$")] = None,
    cursor: Annotated[str | None, Query(pattern=r"^[A-Za-z0-9_.:=-]{1,300}$")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> Response:
    """Your evaluations (with an admin's key: everyone's), newest first."""
    page = await service.page(caller, state=state, status=status, problem=problem, cursor=cursor, limit=limit)
    items = tuple(summary(one) for one in page.items)
    return as_json(Listing(items=items, next_cursor=page.next_cursor), 200, {})


@router.get(
    "/evaluations/{evaluation_id}",
    response_model=Evaluation,
    responses={
        **_evaluated(200, "As it is now.", schemas.WAITING | schemas.DONE),
        304: _KNOWN,
        **documented("not-found", "invalid-request", *KEYED),
    },
)
async def get_evaluation(
    evaluation_id: str, request: Request, service: Here, caller: Known, preference: Preferred, prefer: Prefer = None
) -> Response:
    """One evaluation. With `Prefer: wait=N`, once it is done or N seconds have passed."""
    stored = await _find(service, request, caller, evaluation_id)
    wait_s = preference.wait_s if preference.applied else 0
    if stored.state != "done" and wait_s > 0:
        known = _Known.of(stored)
        del stored
        request.state.body.release()
        stored = await _awaited(service, request, caller, known, wait_s)
    if stored.state != "done":
        return _evaluation(stored, 200, preference)
    return _unless_known(request, stored, lambda: _evaluation(stored, 200, preference))


@router.get(
    "/evaluations/{evaluation_id}/receipt",
    response_model=Verdict,
    responses={
        200: {
            "description": "The signed verdict, as a file for `assay verify`.",
            "headers": {
                "Content-Disposition": {"description": "A name to save it by.", "schema": {"type": "string"}}
            },
        },
        304: _KNOWN,
        **documented("not-found", "invalid-request", *KEYED),
    },
)
async def get_receipt(evaluation_id: str, request: Request, service: Here, caller: Known) -> Response:
    """The verdict alone, with its receipt and signature: what to hand to someone who was not there."""
    stored = await _find(service, request, caller, evaluation_id)
    if stored.verdict is None:
        raise ApiError(
            "not-found", f"{evaluation_id} is not judged yet.", f"GET /evaluations/{evaluation_id} says when it is."
        )
    name = f'attachment; filename="{evaluation_id}.receipt.json"'
    verdict = stored.verdict
    return _unless_known(request, stored, lambda: as_json(verdict, 200, {"Content-Disposition": name}))


@router.delete(
    "/evaluations/{evaluation_id}",
    response_model=Evaluation,
    responses={
        **_evaluated(200, "What is left of it; a job that runs is being ended.", schemas.DONE),
        **documented("not-found", "invalid-request", *KEYED),
    },
)
async def drop_evaluation(evaluation_id: str, request: Request, service: Here, caller: Known) -> Response:
    """Cancel this evaluation: one that waits ends at once, one that runs is stopped."""
    await _find(service, request, caller, evaluation_id)
    stored = await run_in_threadpool(service.evaluations.drop, evaluation_id, caller.sees)
    service.watch.notify(evaluation_id)
    if stored is None:
        raise _not_found(evaluation_id)
    return _evaluation(stored, 200, Preference(0, ""))


@router.get(
    "/evaluations/{evaluation_id}/events",
    response_class=Response,
    responses={
        200: {
            "description": "Server-sent events: `progress` with id, state and progress; `done` with the evaluation.",
            "content": {"text/event-stream": {"schema": {"type": "string"}, "example": schemas.EVENTS}},
        },
        204: {"description": "The last event was seen already; there will be no more."},
        **documented("not-found", "invalid-request", *KEYED),
    },
)
async def evaluation_events(
    evaluation_id: str,
    request: Request,
    service: Here,
    caller: Known,
    last_event_id: Annotated[str | None, Header(description="The `id` of the last event that was seen.")] = None,
) -> Response:
    """One evaluation's progress, live. Ends with `done`; goes on after `Last-Event-ID`."""
    stored = await _find(service, request, caller, evaluation_id)
    seen = int(last_event_id) if last_event_id and _LAST_EVENT.fullmatch(last_event_id) else -1
    if stored.state == "done" and seen >= stored.version:
        return Response(status_code=204)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    known = _Known.of(stored)
    del stored
    request.state.body.release()
    return EventSourceResponse(_events(service, request, caller, known, seen), headers=headers)


async def _read_when_there_is_room(
    service: Service, request: Request, evaluation_id: str, sees: str | None
) -> StoredEvaluation:
    """As `_read`, for a stream, which cannot say any more that the server is busy."""
    while True:
        try:
            return await _read(service, request, evaluation_id, sees)
        except ApiError as refused:
            if refused.name != "busy":
                raise
        await asyncio.sleep(_NO_ROOM_S)


@dataclass(frozen=True)
class _Known:
    """What is kept of an evaluation while it is waited for."""

    id: str
    version: int
    done: bool

    @staticmethod
    def of(stored: StoredEvaluation) -> "_Known":
        return _Known(stored.id, stored.version, stored.state == "done")


async def _find(service: Service, request: Request, caller: Caller, evaluation_id: str) -> StoredEvaluation:
    """Raises ApiError: an evaluation of someone else is as unknown as one that never was."""
    if _ID.fullmatch(evaluation_id):
        return await _read(service, request, evaluation_id, caller.sees)
    raise _not_found(evaluation_id)


async def _read(service: Service, request: Request, evaluation_id: str, sees: str | None) -> StoredEvaluation:
    """One evaluation. Where it is large, its answer has taken its room until it is sent. Raises ApiError."""
    try:
        stored = await service.look(evaluation_id, sees, _SMALL_CHARS)
    except LargeEvaluationError as large:
        request.state.body.hold_up_to(_BYTES_OF_A_CHAR * large.chars)
        stored = await service.look(evaluation_id, sees)
    if stored is None:
        raise _not_found(evaluation_id)
    return stored


def _unless_known(request: Request, stored: StoredEvaluation, answer: Callable[[], Response]) -> Response:
    """What is done does not change any more: whoever has it is told so (RFC 9110, 13.1.2)."""
    # Weak, since the same may be sent with and without gzip.
    tag = f'W/"{stored.version}-{__version__}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    asked = {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}
    if asked & {"*", tag.removeprefix("W/")}:
        return Response(status_code=304, headers=headers)
    whole = answer()
    whole.headers.update(headers)
    return whole


def _not_found(evaluation_id: str) -> ApiError:
    return ApiError(
        "not-found",
        f"You have no evaluation {evaluation_id[:60]!r}.",
        "GET /evaluations lists yours; finished ones are deleted after a while.",
    )


async def _awaited(
    service: Service, request: Request, caller: Caller, known: _Known, wait_s: float
) -> StoredEvaluation:
    """The evaluation when it is done, when the time is up, or when the caller has gone away; as it is then.

    Raises ApiError where it was deleted meanwhile, or the caller's key has ended.
    """
    with service.watch.follow({known.id: known.version}) as follower:
        told = service.first_news(caller, follower, wait_s, HEARTBEAT_S)
        waits = [asyncio.create_task(told), asyncio.create_task(gone(request))]
        request.state.turn.leave()
        try:
            ended, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
        for one in ended:
            one.result()
    await request.state.turn.take()
    return await _read(service, request, known.id, None)


async def _stream(
    service: Service, caller: Caller, known: Iterable["_Known | ApiError"], wait_s: float, request: Request
) -> AsyncIterator[bytes]:
    """The lines of a batch, as its evaluations finish."""
    waiting: dict[str, list[int]] = {}
    versions: dict[str, int] = {}
    for index, one in enumerate(known):
        if isinstance(one, ApiError):
            yield ndjson(_line(index, one, request))
        elif one.done:
            yield await _now(service, one.id, index, request)
            request.state.body.release()
        else:
            waiting.setdefault(one.id, []).append(index)
            versions[one.id] = one.version
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + wait_s
    with service.watch.follow(versions) as follower:
        while waiting and not service.watch.closed and loop.time() < deadline_s:
            news = await follower.next(min(HEARTBEAT_S, deadline_s - loop.time()))
            if ended := await service.why_ended(caller):
                for index in sorted(itertools.chain(*waiting.values())):
                    yield ndjson(_line(index, ended, request))
                return
            if not news:
                yield b"\n"
            for finished in news:
                for index in waiting.pop(finished):
                    yield await _now(service, finished, index, request)
                    request.state.body.release()
    for left, indexes in waiting.items():
        for index in indexes:
            yield await _now(service, left, index, request)
            request.state.body.release()


async def _items(
    service: Service, taken: "list[Accepted | _Known | ApiError]", request: Request
) -> AsyncIterator[bytes]:
    """A `BatchAnswer`, one item after the other: as a whole it may be as large as the body was."""
    yield b'{"items":['
    for index in range(len(taken)):
        one = taken.pop(0)
        line = (
            await _now(service, one.id, index, request)
            if isinstance(one, _Known)
            else ndjson(_line(index, one, request))
        )
        del one
        yield b"," * bool(index) + line.rstrip()
    yield b"]}"


async def _now(service: Service, evaluation_id: str, index: int, request: Request) -> bytes:
    try:
        stored = await _read_when_there_is_room(service, request, evaluation_id, None)
    except ApiError as refused:
        return ndjson(_line(index, refused, request))
    return ndjson(BatchLine(index=index, evaluation=stored.evaluation()))


async def _events(
    service: Service, request: Request, caller: Caller, known: _Known, seen: int
) -> AsyncIterator[bytes]:
    """What changes of one evaluation. Only its newest state is kept, so that is what one who comes back is told."""
    yield format_sse_event(data_str=None, retry=1000)
    with service.watch.follow({known.id: known.version}, ends_only=False) as follower:
        while True:
            try:
                stored = await _read_when_there_is_room(service, request, known.id, caller.sees)
            except ApiError:  # it was deleted
                return
            done = stored.state == "done"
            if stored.version > seen:
                seen = stored.version
                yield _event(stored)
            del stored
            request.state.body.release()
            if done:
                return
            while True:
                news = await follower.next(HEARTBEAT_S)
                if service.watch.closed or await service.why_ended(caller):
                    return
                if news:
                    break
                yield format_sse_event(data_str=None, comment="heartbeat")


def _event(stored: StoredEvaluation) -> bytes:
    if stored.state == "done":
        data = stored.evaluation().model_dump_json()
    else:
        data = json.dumps({"id": stored.id, "state": stored.state, "progress": stored.progress})
    return format_sse_event(
        data_str=data, event="done" if stored.state == "done" else "progress", id=str(stored.version)
    )


def _evaluation(stored: StoredEvaluation, status: int, preference: Preference) -> Response:
    applied = {"Preference-Applied": preference.applied} if preference.applied else {}
    return as_json(stored.evaluation(), status, applied)


def _line(index: int, one: Accepted | ApiError, request: Request) -> BatchLine:
    if isinstance(one, ApiError):
        return BatchLine(index=index, error=one.problem(request.state.request_id))
    return BatchLine(index=index, evaluation=one.evaluation.evaluation())
