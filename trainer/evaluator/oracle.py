"""The evaluator as the trainer meets it: an oracle over HTTP that waits, counts our faults, and stops when there are
too many.

    async with EvaluatorOracle(AsyncClient(url, key), settings_of(config.evaluator)) as oracle:
        await oracle.wait_until_ready(print)
        judged = await oracle.evaluate(submission)

Evaluations overlap, `concurrency` of them at a time. Lost connections, restarts, quotas and slowness are the client's
to sit out: it asks again and resumes by id. A verdict that is a fault of ours (`internal_error`), or that was taken
away (`cancelled`), is asked for once more. What is left is an OracleError: never a reward, always counted; above
`fault_share` of the newest evaluations the oracle is lost, and every later request gets an OracleLostError. So it is
where nobody takes anything from the evaluator's queue any more, or nothing that asks for one backend; a queue that is
only long is no such thing.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, get_args

from common.client import AsyncClient, EvaluatorError, NoVerdictError, RequestRefusedError
from common.contract import Evaluation, Phase, ProblemFace, Reference, Status, Submission, Verdict
from trainer.config.schema import EvaluatorSection as EvaluatorSection
from trainer.conversation.episode import Judged
from trainer.data.references import StatedProblem
from trainer.errors import ConfigurationError, OracleError, OracleLostError

_FEWEST: Final = 20
"""Evaluations or conversations before a share of them means anything."""
_NEWEST: Final = 200
"""Evaluations that the share is taken over: an evaluator that dies is noticed however long it went well before."""
_NO_KERNEL: Final = "__global__ void nothing() {}\n"
_LOOK_AGAIN_S: Final = 2.0
_SAY_AGAIN_S: Final = 15.0
_LOOK_FOR_WORKERS_S: Final = 15.0
"""How often a service is asked whether anybody works there, while evaluations wait."""
_OUT_OF_REACH: Final = (
    "Start it with `assay serve`, or set evaluator.embedded to true, or fix evaluator.url; `assay doctor` on its "
    "machine says what it lacks."
)
_TELLS_MORE: Final = "`assay doctor` on its machine tells more."
_GOES_ON: Final = "The same command goes on then."
_NO_GPU: Final = "Where no GPU comes back, evaluator.backend=sim lets it go on with the simulator's estimates alone."

Place = Literal["gpu", "sim"]
"""Where a kernel ran."""
Backend = Literal["auto", "gpu", "sim"]
"""Where one is to run."""


@dataclass(frozen=True)
class OracleSettings:
    """How the evaluator is asked."""

    concurrency: int = 64
    """Evaluations that are under way at one time."""
    start_patience_s: float = 300.0
    """How long `wait_until_ready` waits."""
    fault_share: float = 0.1
    """Share of the newest evaluations that failed on our side above which the run ends."""
    retries: int = 1
    """How often an evaluation that failed inside the evaluator is sent again."""
    patience_s: float = 600.0
    """How long evaluations wait where the service says that nothing is judged, as without any worker."""
    keep_evidence: bool = False
    """Keep the counts by line and the heat maps, which make most of a verdict; the evaluator has them in any case."""
    backend: Backend = "auto"
    """Where most submissions are to run: `wait_until_ready` waits until something runs there."""

    def __post_init__(self) -> None:
        counts = self.concurrency >= 1 and self.retries >= 0 and 0 <= self.fault_share <= 1
        if not counts or self.start_patience_s < 0 or self.patience_s <= 0:
            raise ValueError(f"{self} asks for what cannot be")


@dataclass(frozen=True)
class OracleCounts:
    """What an oracle has seen so far."""

    asked: int = 0
    """Evaluations that have come to an end, one way or the other."""
    judged: int = 0
    """With a verdict about the kernel, `unsupported` included."""
    unsupported: int = 0
    faults: int = 0
    """Without one, by our own fault."""
    retried: int = 0
    """Sent once more after a fault of the evaluator."""
    repeats: int = 0
    """Answered with an evaluation that this oracle had seen before."""
    evaluator_s: float = 0.0
    """Seconds that evaluations took, summed over all that overlapped."""
    queued_s: float = 0.0
    """Seconds that they waited for one of the `concurrency` places before, summed likewise."""


def oracle_settings(section: EvaluatorSection) -> OracleSettings:
    """As a configuration says."""
    return OracleSettings(
        section.concurrency,
        section.start_patience_s,
        section.fault_share,
        patience_s=section.patience_s,
        backend=section.backend,
    )


def what_to_start(backend: Backend, lacks: Mapping[Backend, str]) -> str:
    """What to do where a service answers and takes nothing for a backend; `lacks` as of `lacking`."""
    taken = [one for one in get_args(Backend) if one not in lacks]
    other = f", or set evaluator.backend to {' or '.join(taken)}" if taken else ""
    return f"{_whom_it_takes(backend, lacks)}{other}; {_TELLS_MORE}"


def _whom_it_takes(backend: Backend, lacks: Mapping[Backend, str]) -> str:
    if backend == "gpu" and "auto" not in lacks:
        # All else is there.
        return "It takes a worker with a GPU: `assay worker` or `assay serve` on a machine that has one"
    return "Start workers there with `assay worker` or `assay serve`, or fix what it says"


async def lacking(client: AsyncClient, backends: Iterable[Backend] = get_args(Backend)) -> dict[Backend, str]:
    """What a service says that it lacks, by the backend that it takes nothing for; none where it says nothing."""
    found: dict[Backend, str] = {}
    for backend in backends:
        with suppress(NoVerdictError):
            if (lacks := await client.why_not_ready(own_word=True, backend=backend)) is not None:
                found[backend] = lacks
    return found


def too_many(failed: int, of: int, share: float) -> bool:
    """Whether more than a share of evaluations or conversations failed. Never where there are only a few."""
    return of >= _FEWEST and failed > share * of


class EvaluatorOracle:
    """An oracle for `trainer.conversation.episode.play`, for one event loop. It closes the client at its end."""

    def __init__(
        self,
        client: AsyncClient,
        settings: OracleSettings | None = None,
        ran_on: Mapping[str, Place] | None = None,
    ) -> None:
        """`ran_on`: where the right kernels of problems have counted so far, as an earlier oracle had it."""
        self._client = client
        self._settings = settings or OracleSettings()
        self._places = asyncio.Semaphore(self._settings.concurrency)
        self._seen: set[str] = set()
        self._counts = OracleCounts()
        self._newest: deque[bool] = deque(maxlen=_NEWEST)
        """Whether each of the newest evaluations was a fault."""
        self._lost: OracleLostError | None = None
        self._waiting: dict[asyncio.Task[Any], Backend] = {}
        """Evaluations that are under way, and the backend that each asks for now."""
        self._watching: asyncio.Task[None] | None = None
        self._idle_since_s: dict[Backend, float] = {}
        """Since when nothing is judged of what asks for each backend, where the service says so."""
        self._judged_s: dict[Backend, float] = {}
        """When the newest verdict came to who asked for each backend."""
        self._ran_on: dict[str, Place] = dict(ran_on or {})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        if self._watching is not None:
            self._watching.cancel()
        await self._client.close()

    @property
    def counts(self) -> OracleCounts:
        """What has happened so far."""
        return self._counts

    @property
    def ran_on(self) -> dict[str, Place]:
        """Where the right kernels of each problem count, by its id: what the next oracle of the same run is given."""
        return dict(self._ran_on)

    async def wait_until_ready(self, tell: Callable[[str], None] = print) -> None:
        """Wait until the evaluator would judge what it is sent; `tell` gets what it lacks, now and then.

        Raises OracleLostError, which says what to do, where patience ends; ConfigurationError where there is
        something else at this address, or the key is wrong.
        """
        started_s = time.monotonic()
        told_s: float | None = None
        while True:
            try:
                reason = await self._client.why_not_ready(backend=self._settings.backend)
                if reason is None:
                    await self._client.problems()  # asks for the key as well
                    return
            except RequestRefusedError as error:
                raise ConfigurationError(str(error), error.remedy or "Fix evaluator.url.") from error
            except NoVerdictError as error:
                reason = str(error)
            reason = reason.rstrip(".")
            waited_s = time.monotonic() - started_s
            if waited_s + _LOOK_AGAIN_S > self._settings.start_patience_s:
                lacks = await lacking(self._client)
                backend = self._settings.backend
                remedy = what_to_start(backend, lacks) if backend in lacks else _OUT_OF_REACH
                raise OracleLostError(f"The evaluator is not ready after {waited_s:.0f} s: {reason}.", remedy)
            if told_s is None or waited_s - told_s > _SAY_AGAIN_S:
                told_s = waited_s
                left_s = self._settings.start_patience_s - waited_s
                tell(f"Waiting for the evaluator ({reason}); giving up in {left_s:.0f} s.")
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def problems(self) -> tuple[ProblemFace, ...]:
        """What the evaluator can grade. Raises OracleError."""
        try:
            return await self._client.problems()
        except NoVerdictError as error:
            raise OracleError(str(error), error.remedy) from error

    async def described(
        self, references: Sequence[Reference], tell: Callable[[str], None] = print
    ) -> tuple[StatedProblem, ...]:
        """What the evaluator says of each of these, without those that it refuses, which `tell` hears of.

        Each is sent with a kernel that does nothing, by which a service learns of a problem. Raises OracleError,
        OracleLostError.
        """
        if not references:
            return ()

        async def learned(reference: Reference) -> None:
            asked = Submission(problem=reference.problem_id, source=_NO_KERNEL, backend="sim", reference=reference)
            verdict = (await self.evaluate(asked)).verdict
            if verdict.phase is Phase.PROBLEM:
                tell(f"{reference.name} is left out: {verdict.message}")

        await asyncio.gather(*map(learned, references))
        try:
            faces = {face.id: face for face in await self._client.problems("caller")}
        except NoVerdictError as error:
            raise OracleError(str(error), error.remedy) from error
        return tuple(StatedProblem(one, faces[one.problem_id]) for one in references if one.problem_id in faces)

    async def version(self) -> str:
        """As the client's. Raises OracleError."""
        try:
            return await self._client.version()
        except NoVerdictError as error:
            raise OracleError(str(error), error.remedy) from error

    async def evaluate(self, submission: Submission) -> Judged:
        """The verdict about one submission. Raises OracleError for a fault of ours, OracleLostError for one too
        many.
        """
        queued_s = time.monotonic()
        async with self._places:
            if self._lost is not None:
                raise self._lost
            started_s = time.monotonic()
            try:
                evaluation, verdict, retried = await self._watched(submission)
            except NoVerdictError as error:
                self._count(queued_s, started_s, faults=1)
                raise self._fault(error) from error
            except OracleLostError:
                self._count(queued_s, started_s, faults=1)
                raise
            self._count(
                queued_s,
                started_s,
                judged=1,
                unsupported=int(verdict.status is Status.UNSUPPORTED),
                repeats=int(evaluation.id in self._seen),
                retried=retried,
            )
            self._seen.add(evaluation.id)
        return Judged(verdict if self._settings.keep_evidence else slim(verdict), evaluation.id)

    async def _watched(self, submission: Submission) -> tuple[Evaluation, Verdict, int]:
        """Raises OracleLostError where nobody has judged anything for too long."""
        asking = asyncio.create_task(self._at_one_place(submission))
        self._waiting[asking] = submission.backend
        asking.add_done_callback(self._waiting.pop)
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch())
        try:
            return await asking
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if self._lost is None or (caller is not None and caller.cancelling()):
                raise
            raise self._lost from None

    async def _watch(self) -> None:
        """While evaluations wait, look whether anybody works where they are to run. That a service does not answer is
        theirs to notice.
        """
        patience_s = self._settings.patience_s
        self._idle_since_s = {}
        while self._waiting:
            await asyncio.sleep(min(_LOOK_FOR_WORKERS_S, patience_s / 4))
            lacks = await lacking(self._client, set(self._waiting.values()))
            now_s = time.monotonic()
            self._idle_since_s = {
                backend: max(self._idle_since_s.get(backend, now_s), self._judged_s.get(backend, 0.0))
                for backend in lacks
                if backend in self._waiting.values()
            }
            for backend, since_s in self._idle_since_s.items():
                if now_s - since_s >= patience_s:
                    self._give_up(backend, now_s - since_s, lacks[backend], await lacking(self._client))
                    return

    def _give_up(self, backend: Backend, idle_s: float, said: str, lacks: Mapping[Backend, str]) -> None:
        waiting = sum(one == backend for one in self._waiting.values())
        asks = "" if backend == "auto" else f" that ask for the backend {backend}"
        self._lost = OracleLostError(
            f"Nobody takes work from the evaluator's queue: {waiting} evaluations{asks} have waited {idle_s:.0f} s, "
            f"and it says: {said}",
            f"{_whom_it_takes(backend, lacks)}; {_TELLS_MORE} {_GOES_ON}{f' {_NO_GPU}' if backend == 'gpu' else ''}",
        )
        for asking in self._waiting:
            asking.cancel()

    async def _at_one_place(self, submission: Submission) -> tuple[Evaluation, Verdict, int]:
        """With the backend `auto` the right kernels of a problem count as they ran where the first one did, also
        where a worker with a GPU comes or goes meanwhile: a speedup that was measured and one that was estimated are
        over different baselines, and rewards of them are compared. Who names a backend decides anew.
        """
        found = await self._insist(submission)
        verdict = found[1]
        if verdict.status is not Status.PASSED:
            return found
        if submission.backend != "auto":
            self._ran_on[submission.problem] = verdict.backend
            return found
        place = self._ran_on.setdefault(submission.problem, verdict.backend)
        if verdict.backend == place:
            return found
        # Only now: a submission that is sent otherwise has no verdict yet, where this one may have.
        asking = asyncio.current_task()
        assert asking is not None
        self._waiting[asking] = place
        return await self._insist(submission.model_copy(update={"backend": place}))

    async def _insist(self, submission: Submission) -> tuple[Evaluation, Verdict, int]:
        for retried in range(self._settings.retries + 1):
            last = retried == self._settings.retries
            try:
                evaluation = await self._ask(submission, fresh=retried > 0)
            except EvaluatorError:
                if last:
                    raise
                continue
            verdict = evaluation.verdict
            if verdict is not None and verdict.status is not Status.CANCELLED:
                self._judged_s[submission.backend] = time.monotonic()
                return evaluation, verdict, retried
        raise NoVerdictError("The evaluation was cancelled by someone else, and so was the one in its place.")

    async def _ask(self, submission: Submission, *, fresh: bool) -> Evaluation:
        """Where nobody takes it by the service's own word, it is asked again: `_watch` says when to give up."""
        while True:
            try:
                return await self._client.evaluation(submission, fresh=fresh)
            except (EvaluatorError, RequestRefusedError):
                raise
            except NoVerdictError:
                if submission.backend not in self._idle_since_s:
                    raise
                await asyncio.sleep(_LOOK_AGAIN_S)

    def _count(self, queued_s: float, started_s: float, **more: int) -> None:
        now_s, counts = time.monotonic(), self._counts
        self._newest.append("faults" in more)
        self._counts = OracleCounts(
            **{
                **vars(counts),
                **{name: getattr(counts, name) + number for name, number in more.items()},
                "asked": counts.asked + 1,
                "evaluator_s": counts.evaluator_s + now_s - started_s,
                "queued_s": counts.queued_s + started_s - queued_s,
            }
        )

    def _fault(self, error: NoVerdictError) -> OracleError:
        """What this fault means: one conversation less, or the end."""
        faults, newest = sum(self._newest), len(self._newest)
        if isinstance(error, RequestRefusedError) and error.status_code in (401, 403, 404):
            self._lost = OracleLostError(str(error), error.remedy, error.evaluation_id)
        elif too_many(faults, newest, self._settings.fault_share):
            self._lost = OracleLostError(
                f"{faults} of the newest {newest} evaluations failed on the evaluator's side, more than the "
                f"{self._settings.fault_share:.0%} that are allowed; the last error: {error}",
                f"{error.remedy or 'Look at the logs of the evaluator.'} Then go on from the last checkpoint.",
                error.evaluation_id,
            )
        return self._lost or OracleError(str(error), error.remedy, error.evaluation_id)


def slim(verdict: Verdict) -> Verdict:
    """A verdict without heat maps and counts by line: a tenth of its size, and the same reward.

    What was signed was the whole, so the signature goes too; the evaluator still has it, by the evaluation's id.
    """
    changes: dict[str, object] = {}
    correctness, profile = verdict.correctness, verdict.profile
    if correctness is not None and any(trial.mismatch and trial.mismatch.heat for trial in correctness.trials):
        trials = tuple(
            trial.model_copy(update={"mismatch": trial.mismatch.model_copy(update={"heat": ()})})
            if trial.mismatch
            else trial
            for trial in correctness.trials
        )
        changes["correctness"] = correctness.model_copy(update={"trials": trials})
    if profile is not None:
        thinner = {
            name: found.model_copy(
                update={"launches": tuple(one.model_copy(update={"lines": ()}) for one in found.launches)}
            )
            for name in ("evidence", "gpu_evidence")
            if (found := getattr(profile, name)) is not None and any(one.lines for one in found.launches)
        }
        if thinner:
            changes["profile"] = profile.model_copy(update=thinner)
    if not changes:
        return verdict
    if verdict.receipt is not None:
        changes["receipt"] = verdict.receipt.model_copy(update={"signature": None})
    return verdict.model_copy(update=changes)
