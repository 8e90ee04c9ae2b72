"""The way into the queue: the verdict that answers a submission already, what it costs, and what is refused."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final, TypeVar

from common.contract import Submission, is_foreign_problem, kept_source
from common.wire import as_bytes
from evaluator.errors import AssayError, UsageError
from evaluator.foreign.learning import RULES
from evaluator.foreign.sources import source_of
from evaluator.pipeline.grading_job import source_bytes
from evaluator.pipeline.without_result import verdict_before_grading
from evaluator.problems.catalogue import find_problem
from evaluator.service import logs
from evaluator.service.api.callers import Caller, TenantTurns
from evaluator.service.api.errors import ApiError, refusal_of
from evaluator.service.api.fleet import Fleet
from evaluator.service.storage.models import (
    FIRST_QUEUE,
    Accepted,
    Answer,
    Asked,
    ForeignText,
    QuotaExceededError,
)
from evaluator.service.storage.secrets import reuse_key
from evaluator.service.storage.submissions import SubmissionRepository
from evaluator.service.workers.task import Announcer
from evaluator.settings import ServiceSettings
from evaluator.stages.screen.cleaning import too_long
from evaluator.stages.verify.trials import asked_sizes

_RULES: Final = "2"
"""Part of what a verdict depends on: of version 1 are verdicts on compilers that someone outside had killed."""

Kept = TypeVar("Kept")

_LOG = logs.logger("admission")
_MINUTE_S = 60.0
_MAX_AT_ONCE = 16
_MAX_ANNOUNCE = 40
_STATING = 2
"""Threads that read the problems which callers state."""


class Admission:
    """Takes submissions in. For one event loop."""

    def __init__(
        self,
        submissions: SubmissionRepository,
        fleet: Fleet,
        announcer: Announcer,
        settings: ServiceSettings,
        secret: bytes,
    ) -> None:
        """`secret` keys the reuse of verdicts."""
        self._submissions, self._fleet = submissions, fleet
        self._announcer = announcer
        self._settings = settings
        self._secret = secret
        # One queue for each tenant, so that a batch of one is in nobody else's way.
        self._arrived: dict[str, deque[tuple[Asked, asyncio.Future[Any]]]] = {}
        self._writing: asyncio.Task[None] | None = None
        # Of its own: announcing may take seconds while Redis is away, and nothing else has to wait for that.
        self._announcing = ThreadPoolExecutor(_MAX_ANNOUNCE, "announcing")
        self._stating = ThreadPoolExecutor(_STATING, "stating")
        self._stating_turns = TenantTurns()
        # Times (monotonic) and costs of what was refused in the last minute, by tenant.
        self._refused: dict[str, deque[tuple[float, int]]] = {}

    def refused(self, caller: Caller, cost: int) -> None:
        """A request of `caller` was refused after its body was read: that costs as much as `cost` evaluations."""
        if caller.quota is not None and caller.quota.per_minute is not None:
            self._refused.setdefault(caller.tenant, deque()).append((time.monotonic(), cost))

    def refused_lately(self, caller: Caller) -> int:
        """What refused requests cost in the last 60 seconds, in evaluations. Only those of this process are known."""
        recent = self._refused.get(caller.tenant)
        if recent is None:
            return 0
        while recent and recent[0][0] < time.monotonic() - _MINUTE_S:
            recent.popleft()
        if not recent:
            del self._refused[caller.tenant]
        return sum(cost for _, cost in recent)

    def look_at_rate(self, caller: Caller) -> None:
        """Refuse whose refused requests alone have used up the quota per minute, before a body is read."""
        most = caller.quota.per_minute if caller.quota else None
        if most is not None and self.refused_lately(caller) >= most > 0:
            wait_s = self._refused[caller.tenant][0][0] + _MINUTE_S - time.monotonic()
            raise refusal_of(QuotaExceededError("per_minute", most, max(1.0, wait_s)))

    async def accept(
        self,
        submission: Submission,
        caller: Caller,
        *,
        idempotency_key: str | None = None,
        fresh: bool = False,
        request_id: str = "",
    ) -> Accepted:
        """Take a submission in, or find the evaluation that answers it already. Raises ApiError.

        What arrives while the store writes is written together, next.
        """
        asked = self._asked(submission, caller, idempotency_key, fresh, request_id)
        return await self._accept(await self._stated(asked), caller)

    def _asked(
        self, submission: Submission, caller: Caller, idempotency_key: str | None, fresh: bool, request_id: str
    ) -> Asked:
        return Asked(
            submission,
            caller.tenant,
            FIRST_QUEUE,
            idempotency_key=idempotency_key,
            fresh=fresh,
            request_id=request_id,
            quota=caller.quota,
            refused_lately=self.refused_lately(caller),
        )

    async def _stated(self, asked: Asked) -> Asked | ApiError:
        """With the text of the problem that the caller states, now or before; for every other problem as it is.

        Reading it takes up to 10 ms, so it is done in a thread, and one of each tenant at a time.
        """
        if asked.submission.reference is None and not is_foreign_problem(asked.submission.problem):
            return asked
        async with self._stating_turns.of(asked.tenant):
            read = asyncio.get_running_loop().run_in_executor(self._stating, self._asked_for_own, asked)
            try:
                return await read
            except ApiError as refused:
                return _alone(refused)

    async def _accept(self, asked: Asked | ApiError, caller: Caller) -> Accepted:
        if isinstance(asked, ApiError):
            raise asked
        answer: asyncio.Future[Answer | AssayError] = asyncio.get_running_loop().create_future()
        self._arrived.setdefault(caller.tenant, deque()).append((asked, answer))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        accepted = await answer
        if isinstance(accepted, ApiError):
            raise accepted
        if isinstance(accepted, AssayError):
            raise refusal_of(accepted) from accepted
        evaluation = accepted.evaluation
        if accepted.waits:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._announcing, self._announcer.announce, evaluation.id, evaluation.queue)
        _LOG.info("accepted", evaluation_id=evaluation.id, tenant=caller.tenant, created=accepted.created)
        return accepted

    def _asked_for_own(self, asked: Asked) -> Asked:
        """For a problem that the caller states, now or before: its text goes aside.

        Raises ApiError for what cannot be asked of such a problem.
        """
        submission, settings = asked.submission, asked.submission.settings
        if self._settings.most_references == 0:
            raise ApiError(
                "no-references",
                "This service takes no problems of its callers' own: the operator's ASSAY_MOST_REFERENCES is 0.",
                "GET /problems lists what it has.",
            )
        for name, is_given in {
            "settings.sizes is given": settings.sizes is not None,
            "settings.shrink_s is above 0": settings.shrink_s > 0,
        }.items():
            if is_given:
                raise ApiError(
                    "invalid-request",
                    f"{name}, which is not possible for a problem of your own: it is judged at its own sizes.",
                    "Leave it out.",
                )
        foreign = None
        if submission.reference is not None:
            try:
                source = source_of(submission.reference)
            except UsageError as refused:
                raise ApiError("invalid-request", str(refused), refused.remedy) from refused
            foreign = ForeignText(source.problem_id, source.name, source.text.decode("utf-8", "replace"))
        taken = submission.model_copy(update={"reference": None})
        return replace(asked, submission=taken, foreign=foreign, most_foreign=self._settings.most_references)

    async def accept_all(
        self,
        submissions: Sequence[Submission],
        caller: Caller,
        idempotency_key: str | None,
        fresh: bool,
        request_id: str,
        keep: Callable[[Accepted], Kept],
    ) -> list[Kept | ApiError]:
        """Take in each, in order. The refusal of one is no refusal of the others.

        `keep` says what is kept of one that is taken in until all are: its verdict, if there is one, may be large.
        """

        async def one(asked: Asked | ApiError) -> Kept | ApiError:
            try:
                return keep(await self._accept(asked, caller))
            except ApiError as refused:
                return _alone(refused)

        stated = []
        for index, submission in enumerate(submissions):
            own_key = f"{idempotency_key}/{index}" if idempotency_key else None
            stated.append(await self._stated(self._asked(submission, caller, own_key, fresh, request_id)))
        # Only now, so that one which names the problem of another before it finds that.
        return await asyncio.gather(*map(one, stated))

    async def _write(self) -> None:
        """Take in whatever has arrived, a few at a time, so that workers' writes come between."""
        while self._arrived:
            some = self._next()
            answers: Sequence[Answer | ApiError | AssayError | Exception]
            try:
                answers = await asyncio.to_thread(self._take_in, [asked for asked, _ in some])
            except Exception as error:
                answers = [error] * len(some)
            for (_, waiting), answer in zip(some, answers, strict=True):
                if waiting.cancelled():
                    continue
                if isinstance(answer, Exception) and not isinstance(answer, AssayError | ApiError):
                    waiting.set_exception(answer)
                else:
                    waiting.set_result(answer)

    def _next(self) -> list[tuple[Asked, asyncio.Future[Any]]]:
        """The next few to be written: tenants take turns, each in the order of its own arrivals."""
        some: list[tuple[Asked, asyncio.Future[Any]]] = []
        while self._arrived and len(some) < _MAX_AT_ONCE:
            tenant = next(iter(self._arrived))
            theirs = self._arrived.pop(tenant)
            some.append(theirs.popleft())
            if theirs:
                self._arrived[tenant] = theirs
        return some

    def _take_in(self, asked: Sequence[Asked]) -> list[Answer | ApiError | AssayError]:
        answers: dict[int, Answer | ApiError | AssayError] = {}
        able: dict[int, Asked] = {}
        for index, one in enumerate(asked):
            try:
                able[index] = _ruled(one) or self._known_by(one)
            except (ApiError, AssayError) as refusal:
                answers[index] = refusal
        if able:
            try:
                found = self._submissions.accept_all(tuple(able.values()), max_queued=self._settings.max_queued)
                answers.update(zip(able, found, strict=True))
            except AssayError as fault:
                answers.update(dict.fromkeys(able, fault))
        return [answers[index] for index in range(len(asked))]

    def _look_for_references(self, submission: Submission) -> None:
        """Refuse a problem of a caller's own where no worker could carry it out. Raises ApiError, StorageError."""
        why = self._fleet.why_no_references(submission.backend)
        if why is not None:
            raise ApiError(
                "no-references",
                f"No worker of this service can carry out a reference: {why}",
                "GET /problems lists what it has. Its operator can set ASSAY_SANDBOX=bubblewrap where PyTorch is "
                "installed, or ASSAY_MOST_REFERENCES=0 to say this for good.",
            )

    def _known_by(self, asked: Asked) -> Asked:
        """With all that its verdict would depend on, as one key, where it is known who would judge; or unserved.

        Raises ApiError.
        """
        submission = asked.submission
        if is_foreign_problem(submission.problem):
            self._look_for_references(submission)
            version = RULES  # the text is in its id
        else:
            problem = find_problem(submission.problem)
            version = problem.face.version
            if submission.settings.sizes is not None:
                asked_sizes(problem, submission.settings.sizes)
        fleet = self._fleet.workers()
        with_gpu = [worker for worker in fleet if worker.backend == "gpu"]
        if submission.backend == "gpu" and fleet and not with_gpu:
            return replace(asked, unserved=True)
        judges = with_gpu if with_gpu and submission.backend != "sim" else fleet
        if not judges:
            return asked
        backend = "gpu" if judges is with_gpu else "sim"
        # The simulator gives the same verdict on every host; a time is of one model of GPU.
        able = {
            (one.device if backend == "gpu" else "", one.arch, one.toolchain, one.grader_version) for one in judges
        }
        facts = [fact for one in sorted(able) for fact in one]
        key = reuse_key(self._secret, (_RULES, asked.tenant, as_bytes(submission), version, backend, *facts))
        return replace(asked, reuse_key=key)


def _alone(refused: ApiError) -> ApiError:
    """Without what it came of, which keeps all that was read until a whole batch is answered."""
    refused.__cause__ = refused.__context__ = None
    return refused.with_traceback(None)


def _ruled(asked: Asked) -> Asked | None:
    """With its verdict, where the size of its source alone decides that; None for every other one.

    Such a source is not stored: it would cost everyone who reads it again, and nothing in it matters. What the
    caller states as a problem is not kept either. Raises UnknownProblemError.
    """
    submission = asked.submission
    if kept_source(submission.source) == submission.source:
        return None
    if not is_foreign_problem(submission.problem):
        find_problem(submission.problem)
    verdict = verdict_before_grading(submission, too_long(len(source_bytes(submission))))
    return replace(asked, verdict=verdict, foreign=None)
