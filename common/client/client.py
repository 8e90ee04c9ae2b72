"""The client of the service: submissions go out, verdicts come back, each exactly once.

    with Client("http://127.0.0.1:8000") as client:
        verdict = client.evaluate(Submission(problem="softmax", source=text))
        verdicts = client.evaluate_many(submissions, concurrency=64)

Lost connections, busy and restarting services are asked again, with growing and random pauses. Every POST carries an
`Idempotency-Key`, so asking twice is one evaluation; once its id is known it is resumed by id. Where there is no
verdict about the submission there is an exception, never a reward.
"""

import asyncio
import contextlib
import os
import random
import secrets
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Literal, Self, TypeVar
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError

from common.client.transport import (
    Backend,
    Connection,
    NoVerdictError,
    RequestRefusedError,
    ServiceError,
    TransientFailure,
    checked,
    sendable,
    why_not_ready,
)
from common.contract import CONTRACT_VERSION, Evaluation, ProblemFace, Status, Submission, Verdict, kept_source

WAIT_S = 20.0
"""How long one request waits for a verdict; below what gateways usually allow."""
PATIENCE_S = 600.0
"""How long one evaluation goes without a useful answer before it is given up."""

_GOODBYE_S = 5.0
_LOOK_S = 1.0
_FACES = TypeAdapter(tuple[ProblemFace, ...])
_VERSION = TypeAdapter(dict[str, Any])
_T = TypeVar("_T")
_R = TypeVar("_R")
_Outcome = TypeVar("_Outcome", Verdict, Verdict | NoVerdictError)


class EvaluatorError(ServiceError):
    """The evaluator itself failed: `verdict` has the status `internal_error`."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(f"The evaluator failed: {verdict.message}", verdict.hint)
        self.verdict = verdict


@dataclass(frozen=True)
class Finished:
    """One of many evaluations has come back."""

    index: int
    """Its place among the submissions, from 0."""
    done: int
    """How many have come back so far, this one included."""
    outcome: Verdict | NoVerdictError


@dataclass
class _Trip:
    """What is known about one submission on its way."""

    body: bytes
    submission: Submission
    fresh: bool
    key: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    sent: bool = False
    evaluation_id: str | None = None


class AsyncClient:
    """Evaluations over HTTP, for one event loop. `async with`, or `close` at the end.

    `url`: where the service listens, for example `http://127.0.0.1:8000`. `key`: its bearer key, if it has any.
    `patience_s`: how long one evaluation goes without a useful answer before it is given up; that it
    still waits for a worker is a useful answer. Raises ValueError for a `url` or a `key` that cannot be
    one; the error does not show the key.
    """

    def __init__(
        self, url: str, key: str | None = None, *, wait_s: float = WAIT_S, patience_s: float = PATIENCE_S
    ) -> None:
        self._service = Connection(url, key, wait_s, patience_s)
        # While the service is busy, one submission after another asks for a place, in the order of arrival.
        self._turnstile = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._service.close()

    async def evaluate(
        self, submission: Submission, *, fresh: bool = False, progress: Callable[[Evaluation], None] | None = None
    ) -> Verdict:
        """Grade one submission and wait for the verdict.

        `fresh` asks for a new verdict where there is one for the same submission. `progress` sees the evaluation
        whenever its state has changed. Who is cancelled while waiting, or raises in `progress`, drops the evaluation.
        Raises NoVerdictError.
        """
        return _verdict(await self.evaluation(submission, fresh=fresh, progress=progress))

    async def evaluation(
        self, submission: Submission, *, fresh: bool = False, progress: Callable[[Evaluation], None] | None = None
    ) -> Evaluation:
        """As `evaluate`, but with all that surrounds the verdict: its id above all."""
        trip = _Trip(submission.model_dump_json().encode(), submission, fresh)
        try:
            evaluation = await self._post(trip, progress is not None)
            return await self._settle(evaluation, trip, progress)
        except NoVerdictError as error:
            error.evaluation_id = trip.evaluation_id
            raise
        except BaseException:
            await self._drop_quietly(trip)
            raise

    async def evaluate_many(
        self,
        submissions: Iterable[Submission],
        *,
        concurrency: int = 64,
        fresh: bool = False,
        progress: Callable[[Finished], None] | None = None,
    ) -> list[Verdict]:
        """Grade many submissions, at most `concurrency` at a time; one verdict for each, in their order.

        `submissions` is read as places become free. `progress` gets each that has come back. The first
        NoVerdictError is raised, and all that is under way is dropped.
        """
        return await _in_order(submissions, concurrency, partial(self.evaluate, fresh=fresh), progress)

    async def evaluate_each(
        self,
        submissions: Iterable[Submission],
        *,
        concurrency: int = 64,
        fresh: bool = False,
        progress: Callable[[Finished], None] | None = None,
    ) -> list[Verdict | NoVerdictError]:
        """As `evaluate_many`, but a NoVerdictError stands in its submission's place, and the others go on."""

        async def outcome(submission: Submission) -> Verdict | NoVerdictError:
            try:
                return await self.evaluate(submission, fresh=fresh)
            except NoVerdictError as error:
                return error

        return await _in_order(submissions, concurrency, outcome, progress)

    async def result(self, evaluation_id: str, *, progress: Callable[[Evaluation], None] | None = None) -> Verdict:
        """Wait for the verdict of an evaluation that was accepted before, from any caller. Raises NoVerdictError."""
        try:
            return _verdict(await self._settle(await self._look(evaluation_id, 0.0), None, progress))
        except NoVerdictError as error:
            error.evaluation_id = evaluation_id
            raise

    async def get(self, evaluation_id: str) -> Evaluation:
        """The evaluation as it is now. Raises NoVerdictError; RequestRefusedError with 404 where there is none of
        this id.
        """
        return await self._look(evaluation_id, 0.0)

    async def problems(self, stated_by: Literal["assay", "caller"] = "assay") -> tuple[ProblemFace, ...]:
        """What the service can grade: its own problems, or those that the caller has sent. Raises NoVerdictError."""
        path = "/problems" if stated_by == "assay" else f"/problems?stated_by={stated_by}"

        async def attempt() -> tuple[ProblemFace, ...] | TransientFailure:
            answer = await self._service.ask("GET", path, {})
            try:
                return answer if isinstance(answer, TransientFailure) else _FACES.validate_json(answer)
            except ValidationError as error:
                raise _foreign(error, "no list of problems") from error

        return await self._service.retry(attempt)

    async def version(self) -> str:
        """What grades there, in words that change where it does: versions of the grader and of its contract. Raises
        NoVerdictError.
        """

        async def attempt() -> str | TransientFailure:
            answer = await self._service.ask("GET", "/version", {})
            if isinstance(answer, TransientFailure):
                return answer
            try:
                found = _VERSION.validate_json(answer)
            except ValidationError as error:
                raise _foreign(error, "no version") from error
            return f"{found.get('assay')}, contract {found.get('contract')}"

        return await self._service.retry(attempt)

    async def why_not_ready(self, *, own_word: bool = False, backend: Backend = "auto") -> str | None:
        """Why an evaluation that is sent now would have to wait, as far as one look tells; None where it need not.

        `own_word`: by the service's own word alone, as that it has no worker, not because it is out of reach. Raises
        RequestRefusedError where there is something else than a service at this address.
        """
        return why_not_ready(await self._service.ask("GET", "/readyz", {}), backend, own_word)

    async def drop(self, evaluation_id: str) -> None:
        """Cancel this evaluation: what is running is stopped. Raises NoVerdictError."""
        await self._service.retry(lambda: self._service.ask("DELETE", _path(evaluation_id), {}))

    async def _post(self, trip: _Trip, watched: bool = False) -> Evaluation:
        def hold_on() -> Coroutine[Any, Any, Evaluation | TransientFailure]:
            return self._send(trip, _prefer(min(self._service.wait_s, _LOOK_S) if watched else self._service.wait_s))

        trouble: TransientFailure | None = None
        if not self._turnstile.locked():
            found = await hold_on()
            if isinstance(found, Evaluation):
                return found
            trouble = found
            if not trouble.busy:
                # It went away while we waited, and may again: this time the id comes first.
                return await self._service.retry(lambda: self._send(trip, "respond-async"), trouble)
        if self._turnstile.locked():
            trouble = None  # the pause that it asks for is over when those who came first have their places
        async with self._turnstile:
            return await self._service.retry(lambda: self._send(trip, "respond-async"), trouble)

    async def _send(self, trip: _Trip, prefer: str) -> Evaluation | TransientFailure:
        headers = {"Content-Type": "application/json", "Idempotency-Key": trip.key, "Prefer": prefer}
        trip.sent = True
        answer = await self._service.ask("POST", f"/evaluate{'?fresh=true' * trip.fresh}", headers, trip.body)
        found = answer if isinstance(answer, TransientFailure) else _read(answer)
        if isinstance(found, Evaluation):
            asked = trip.submission
            if found.submission.problem != asked.problem or found.submission.source not in (
                asked.source,
                kept_source(asked.source),
            ):
                raise ServiceError(
                    f"The service at {self._service.url} answered with another submission's evaluation."
                )
            trip.evaluation_id = found.id
        return found

    async def _look(self, evaluation_id: str, wait_s: float) -> Evaluation:
        async def attempt() -> Evaluation | TransientFailure:
            nonlocal wait_s
            answer = await self._service.ask("GET", _path(evaluation_id), {"Prefer": _prefer(wait_s)})
            wait_s = 0.0  # after trouble: that it is still there is a useful answer too
            return answer if isinstance(answer, TransientFailure) else _read(answer)

        evaluation = await self._service.retry(attempt)
        if evaluation.id != evaluation_id:
            raise ServiceError(f"The service at {self._service.url} answered with another evaluation's verdict.")
        return evaluation

    async def _settle(
        self, evaluation: Evaluation, trip: _Trip | None, progress: Callable[[Evaluation], None] | None
    ) -> Evaluation:
        """Wait until the evaluation is done; one that the service has lost is sent once more, under the same key."""
        wait_s = min(self._service.wait_s, _LOOK_S) if progress else self._service.wait_s
        seen: tuple[str, str | None] | None = None
        lost = False
        while True:
            if progress and seen != (evaluation.state, evaluation.progress):
                seen = (evaluation.state, evaluation.progress)
                progress(evaluation)
            if evaluation.verdict is not None:
                break
            asked_s = time.monotonic()
            try:
                evaluation = await self._look(evaluation.id, wait_s)
            except RequestRefusedError as error:
                if error.status_code != 404 or trip is None:
                    raise
                if lost:
                    raise ServiceError(f"The service at {self._service.url} keeps losing this evaluation.") from error
                lost = True
                evaluation = await self._post(trip, progress is not None)
            if evaluation.verdict is None and time.monotonic() - asked_s < wait_s / 2:
                await asyncio.sleep(random.uniform(0.1, 0.3))  # a service that does not wait is not asked in a hurry
        if evaluation.verdict.status is Status.INTERNAL_ERROR:
            raise EvaluatorError(evaluation.verdict)
        return evaluation

    async def _drop_quietly(self, trip: _Trip) -> None:
        if not trip.sent:
            return
        with contextlib.suppress(NoVerdictError, TimeoutError):
            async with asyncio.timeout(_GOODBYE_S):
                if trip.evaluation_id is None:  # the answer with its id is still to come: the same key asks for it
                    await self._service.retry(lambda: self._send(trip, "respond-async"))
                await self.drop(str(trip.evaluation_id))


class Client:
    """The same without `async`: evaluations over HTTP, from any number of threads. `with`, or `close` at the end.

    Arguments as those of `AsyncClient`. Callbacks run in the caller's thread. Ctrl-C, like an exception in a
    callback, drops what is under way.
    """

    def __init__(
        self, url: str, key: str | None = None, *, wait_s: float = WAIT_S, patience_s: float = PATIENCE_S
    ) -> None:
        checked(url)
        sendable(key)
        self._new = partial(AsyncClient, url, key, wait_s=wait_s, patience_s=patience_s)
        self._starting = threading.Lock()
        self._running: tuple[int, asyncio.AbstractEventLoop, threading.Thread, AsyncClient] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. A client that is used again opens new ones."""
        with self._starting:
            running, self._running = self._running, None
        if running is None or running[0] != os.getpid():
            return
        _, loop, thread, client = running
        asyncio.run_coroutine_threadsafe(client.close(), loop).result(_GOODBYE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def evaluate(
        self, submission: Submission, *, fresh: bool = False, progress: Callable[[Evaluation], None] | None = None
    ) -> Verdict:
        """Grade one submission and wait for the verdict; see `AsyncClient.evaluate`. Raises NoVerdictError."""
        return self._run(lambda client, tell: client.evaluate(submission, fresh=fresh, progress=tell), progress)

    def evaluate_many(
        self,
        submissions: Iterable[Submission],
        *,
        concurrency: int = 64,
        fresh: bool = False,
        progress: Callable[[Finished], None] | None = None,
    ) -> list[Verdict]:
        """Grade many submissions, in their order; see `AsyncClient.evaluate_many`. Raises NoVerdictError."""
        return self._run(
            lambda client, tell: client.evaluate_many(
                submissions, concurrency=concurrency, fresh=fresh, progress=tell
            ),
            progress,
        )

    def evaluate_each(
        self,
        submissions: Iterable[Submission],
        *,
        concurrency: int = 64,
        fresh: bool = False,
        progress: Callable[[Finished], None] | None = None,
    ) -> list[Verdict | NoVerdictError]:
        """As `evaluate_many`, but a NoVerdictError stands in its submission's place, and the others go on."""
        return self._run(
            lambda client, tell: client.evaluate_each(
                submissions, concurrency=concurrency, fresh=fresh, progress=tell
            ),
            progress,
        )

    def result(self, evaluation_id: str, *, progress: Callable[[Evaluation], None] | None = None) -> Verdict:
        """Wait for the verdict of an evaluation that was accepted before, from any caller. Raises NoVerdictError."""
        return self._run(lambda client, tell: client.result(evaluation_id, progress=tell), progress)

    def get(self, evaluation_id: str) -> Evaluation:
        """The evaluation as it is now. Raises NoVerdictError; RequestRefusedError with 404 where there is none of
        this id.
        """
        return self._run(lambda client, tell: client.get(evaluation_id), None)

    def drop(self, evaluation_id: str) -> None:
        """Cancel this evaluation: what is running is stopped. Raises NoVerdictError."""
        self._run(lambda client, tell: client.drop(evaluation_id), None)

    def _run(
        self,
        begin: Callable[[AsyncClient, Callable[[_T], None] | None], Coroutine[Any, Any, _R]],
        progress: Callable[[_T], None] | None,
    ) -> _R:
        loop, client = self._loop()
        # What the loop tells this thread: progress, and at the end the task itself.
        heard: SimpleQueue[Any] = SimpleQueue()
        tasks: list[asyncio.Task[_R]] = []

        def start() -> None:
            tasks.append(loop.create_task(begin(client, heard.put if progress else None)))
            tasks[0].add_done_callback(heard.put)

        def stop() -> None:
            tasks[0].cancel()

        loop.call_soon_threadsafe(start)
        try:
            while not isinstance(event := heard.get(), asyncio.Task):
                if progress:
                    progress(event)
        except BaseException:
            loop.call_soon_threadsafe(stop)
            with contextlib.suppress(Empty):
                while not isinstance(heard.get(timeout=_GOODBYE_S + 1), asyncio.Task):
                    pass
            raise
        return tasks[0].result()

    def _loop(self) -> tuple[asyncio.AbstractEventLoop, AsyncClient]:
        with self._starting:
            # A thread does not live on in a forked process: that one gets its own.
            if self._running is None or self._running[0] != os.getpid():
                loop = asyncio.new_event_loop()
                thread = threading.Thread(target=loop.run_forever, name="assay-client", daemon=True)
                self._running = (os.getpid(), loop, thread, self._new())
                thread.start()
            return self._running[1], self._running[3]


async def _in_order(
    submissions: Iterable[Submission],
    concurrency: int,
    one: Callable[[Submission], Coroutine[Any, Any, _Outcome]],
    progress: Callable[[Finished], None] | None,
) -> list[_Outcome]:
    """What `one` gives for each, a few at a time; the first exception ends all and is raised as it is, not in a
    group.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency is {concurrency}; it must be at least 1")
    left = enumerate(submissions)
    outcomes: dict[int, _Outcome] = {}

    async def work(left: Iterator[tuple[int, Submission]]) -> None:
        for index, submission in left:
            outcomes[index] = await one(submission)
            if progress:
                progress(Finished(index, len(outcomes), outcomes[index]))

    tasks = [asyncio.create_task(work(left)) for _ in range(concurrency)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return [outcomes[index] for index in range(len(outcomes))]


def _prefer(wait_s: float) -> str:
    return f"wait={max(round(wait_s), 0)}"


def _path(evaluation_id: str) -> str:
    # An id may come from anywhere: it is one segment of a path, whatever it holds.
    return f"/evaluations/{quote(evaluation_id, safe='')}"


def _read(body: bytes) -> Evaluation | TransientFailure:
    """Raises ServiceError for JSON that is no evaluation: another version of the contract, or no Assay at all."""
    try:
        return Evaluation.model_validate_json(body)
    except ValidationError as error:
        if error.errors()[0]["type"] == "json_invalid":
            return TransientFailure(f"it sent what is not JSON, {len(body)} bytes")
        raise _foreign(error, "no evaluation") from error


def _foreign(error: ValidationError, what: str) -> ServiceError:
    return ServiceError(
        f"The service sent what is {what}: {error.error_count()} fields do not fit contract {CONTRACT_VERSION}.",
        "Look at /version there: client and service must speak the same contract.",
    )


def _verdict(evaluation: Evaluation) -> Verdict:
    """Of an evaluation that is done."""
    if evaluation.verdict is None:
        raise ServiceError(f"The evaluation {evaluation.id} is not done.")
    return evaluation.verdict
