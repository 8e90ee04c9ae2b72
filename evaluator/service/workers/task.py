"""The one task: work on a leased evaluation until it is judged, passed on, or cancelled.

Embedded workers and Celery's call the same `perform`; they differ in how they come to a lease.
"""

import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar

from common.contract import Phase, Status, Submission, Verdict, is_foreign_problem
from evaluator.cancellation import CancelledError, CancelToken
from evaluator.errors import GpuError, InfrastructureError, InternalError, Ruling, StorageError, UsageError
from evaluator.foreign.loading import foreign_problem
from evaluator.foreign.reference import ReferenceRefusedError, remedy_for
from evaluator.pipeline.grading_job import UNPREPARED, GradingJob, Preparation, source_bytes
from evaluator.pipeline.pipeline import evaluate, prepare
from evaluator.pipeline.progress import Progress, ProgressCallback
from evaluator.pipeline.referee import RemoteTarget, Target
from evaluator.pipeline.stage_values import Ending
from evaluator.pipeline.toolbox import BoundToolbox, Toolbox
from evaluator.pipeline.verdict import build_verdict
from evaluator.pipeline.without_result import verdict_without_result
from evaluator.problems.catalogue import find_problem
from evaluator.problems.problem import Problem
from evaluator.service import logs
from evaluator.service.storage.evaluation_rows import MAX_ATTEMPTS
from evaluator.service.storage.evaluations import EvaluationRepository
from evaluator.service.storage.leases import LeaseRepository
from evaluator.service.storage.models import Lease, WorkerFacts, backend_of, is_gpu_queue
from evaluator.service.storage.sharing.fair_share import YIELD_AFTER_S
from evaluator.service.storage.workers import WorkerRepository

MIN_FREE_BYTES: Final = 32 << 20
"""With less room than this in the data folder nothing is claimed, and what failed meanwhile was no attempt."""

_LOOK_S: Final = 0.25
"""How often a running job asks whether it is still wanted."""
_PROGRESS_S: Final = 0.5
"""How often what is being done is written down, at most."""
_PATIENCE_S: Final = 60.0
"""How long a verdict waits for a store that cannot be reached."""
_PATIENCE_AT_THE_END_S: Final = 5.0

Answer = TypeVar("Answer")
_LOG = logs.logger("work")


class Announcer(Protocol):
    """Tells workers that there is something to do."""

    def announce(self, evaluation_id: str, queue: str) -> None:
        """Best effort, and never an error: what stays unheard is announced again by the sweeper."""


@dataclass(frozen=True)
class Tools:
    """What a worker brings to its work, beside the toolbox."""

    evaluations: EvaluationRepository
    leases: LeaseRepository
    workers: WorkerRepository
    announcer: Announcer
    queues: tuple[str, ...]
    """The queues that this worker serves."""
    shift: CancelToken = field(default_factory=CancelToken)
    """Withdrawn when this worker has to stop at once: what it is at goes back, unharmed."""
    lease_s: float = 20.0
    draining: Callable[[], bool] = lambda: False
    """Whether this worker is to end: whoever told it so may have told the processes of its job as well."""
    references: bool = True
    """Whether it can carry out what callers state problems with."""


@dataclass(frozen=True)
class _HandOff:
    """The compile stage is done, and others have to judge."""

    queue: str
    preparation: Preparation = UNPREPARED


def perform(lease: Lease, toolbox: Toolbox, tools: Tools) -> None:
    """Work on `lease` and store what came of it. Whatever goes wrong is a verdict, or another attempt; never raises.

    The stage `compile` ends with a verdict or by passing on; where this worker serves the queue that comes next, it
    judges at once. The stage `judge` always ends with a verdict.
    """
    cancel_token = CancelToken()
    bound = toolbox.bound_to(cancel_token, lease.tenant)
    with (
        logs.bound(evaluation_id=lease.evaluation_id, request_id=lease.request_id, attempt=lease.attempt),
        tools.shift.on_cancel(cancel_token.cancel),
        _Heartbeat(lease, tools, cancel_token) as heart,
    ):
        started_s, before_s = time.monotonic(), time.process_time()
        try:
            if lease.alone:
                _await_solitude(lease, tools, cancel_token)
            outcome = _outcome(lease, bound, tools, heart.note)
        except InfrastructureError as fault:
            bound.note(fault)
            outcome = _failed(lease.submission, fault)
        except Exception as error:
            _LOG.exception("a mistake of our own")
            outcome = _failed(lease.submission, InternalError(error))
        # A GPU serves one at a time: there the time counts, not what its host's processors did.
        used_s = time.process_time() - before_s + bound.used_s
        used_s = max(used_s, time.monotonic() - started_s) if toolbox.gpu is not None else used_s
        try:
            how = _conclude(outcome, lease, bound, tools, heart, used_s)
        except StorageError as fault:
            how = f"nothing could be stored: {fault}; the lease will end, and another attempt follows"
        except Exception:
            _LOG.exception("what came of an evaluation could not be stored")
            return
        _LOG.info("worked", outcome=how, stage=lease.stage, queue=lease.queue, took_s=time.monotonic() - started_s)


def has_room(data_dir: Path) -> bool:
    """Whether the disk of the data folder has room for the files of a job. Without, every attempt would fail."""
    try:
        return shutil.disk_usage(data_dir).free >= MIN_FREE_BYTES
    except OSError:  # the first write there says it better
        return True


# ---- doing it ----


def _await_solitude(lease: Lease, tools: Tools, cancel_token: CancelToken) -> None:
    """Wait until nothing else runs on this host, where it is known that workers or jobs die beside this one."""
    _LOG.warning("lost often, so it is tried alone: nothing else begins on this host meanwhile")
    # At first a moment: whoever began at the same time as this did may not be seen yet.
    while not cancel_token.wait(_LOOK_S):
        if not _insist(lambda: tools.leases.has_company(lease), tools.shift):
            return


def _outcome(lease: Lease, toolbox: BoundToolbox, tools: Tools, progress: ProgressCallback) -> Verdict | _HandOff:
    submission = lease.submission
    if is_foreign_problem(submission.problem):
        return _of_callers_own(lease, toolbox, tools, progress)
    try:
        problem = find_problem(submission.problem)
    except UsageError as unknown:  # another version of the grader accepted it
        return _failed(submission, InfrastructureError(f"This worker cannot grade it: {unknown}", unknown.remedy))
    if lease.stage == "judge":
        preparation = Preparation(lease.compiled_s, lease.worked_s)
        return _judge(submission, problem, lease.queue, toolbox, progress, preparation)
    own = _own_queue(submission, toolbox, tools)
    if own is not None:
        return _judge(submission, problem, own, toolbox, progress)
    fleet = _insist(tools.workers.fleet, tools.shift)
    queue = _route(submission, fleet)
    if queue in tools.queues:
        return _judge(submission, problem, queue, toolbox, progress)
    target = _target(queue, toolbox, fleet)
    if target is None:
        return _HandOff(queue)
    prepared = prepare(submission, problem, toolbox, target, progress)
    return _HandOff(queue, prepared) if isinstance(prepared, Preparation) else prepared


def _of_callers_own(
    lease: Lease, toolbox: BoundToolbox, tools: Tools, progress: ProgressCallback
) -> Verdict | _HandOff:
    """Grade for a problem that the caller states: it is read, learned at its first use, and judged, all here."""
    submission, text = lease.submission, lease.foreign
    queue = _queue_of_callers_own(lease, toolbox, tools)
    if queue not in tools.queues or not tools.references:
        return _HandOff(queue)
    backend = backend_of(queue)
    if text is None:
        raise InfrastructureError(f"The text of {submission.problem} is gone.", "Send it again, as `reference`.")
    progress(Progress(Phase.PROBLEM))
    refusal: ReferenceRefusedError
    try:
        with foreign_problem(
            text.text.encode(),
            text.name,
            toolbox.sandbox,
            toolbox.cache,
            submission.settings.other_sizes,
            problem_id=text.id,
            cancel_token=toolbox.cancel_token,
            backend=backend,
        ) as problem:
            _insist(lambda: tools.leases.learned(lease, problem.face, None), tools.shift)
            return _judge(submission, problem, queue, toolbox, progress)
    except ReferenceRefusedError as error:
        refusal = error
    except CancelledError:
        ended = Ruling(
            Status.CANCELLED, Phase.PROBLEM, "The evaluation was cancelled, so the work on it was stopped."
        )
        return verdict_without_result(submission.problem, backend, ended)
    except UsageError as error:  # no PyTorch
        raise InfrastructureError(str(error), error.remedy) from error
    _insist(lambda: tools.leases.learned(lease, None, str(refusal)), tools.shift)
    hint = refusal.remedy or remedy_for(str(refusal))
    told = f"{hint} The kernel was not judged, so there is no reward."
    return verdict_without_result(
        submission.problem, backend, Ruling(Status.UNSUPPORTED, Phase.PROBLEM, str(refusal), told)
    )


def _queue_of_callers_own(lease: Lease, toolbox: Toolbox, tools: Tools) -> str:
    """The queue in which it is read and judged: both are done by one worker."""
    if lease.stage == "judge":
        return lease.queue
    own = _own_queue(lease.submission, toolbox, tools)
    return own or _route(lease.submission, _insist(tools.workers.fleet, tools.shift))


def _own_queue(submission: Submission, toolbox: Toolbox, tools: Tools) -> str | None:
    """Which queue of this worker is right for a submission, whatever other workers there are; None where none is."""
    if submission.backend == "sim":
        return "sim" if "sim" in tools.queues else None
    return next((queue for queue in tools.queues if is_gpu_queue(queue) and toolbox.gpu is not None), None)


def _route(submission: Submission, fleet: tuple[WorkerFacts, ...]) -> str:
    """The queue in which a submission waits to be judged, where no queue of this worker's is right for sure."""
    if submission.backend == "sim":
        return "sim"
    if submission.backend == "gpu" or any("gpu" in worker.queues for worker in fleet):
        return "gpu"
    return "sim"


def _target(queue: str, toolbox: Toolbox, fleet: tuple[WorkerFacts, ...]) -> Target | None:
    """What to compile for, where others judge; None where nobody knows yet."""
    for worker in fleet:
        if queue in worker.queues:
            return RemoteTarget(backend_of(queue), worker.device, worker.arch)
    return None if is_gpu_queue(queue) else toolbox.simulator


def _judge(
    submission: Submission,
    problem: Problem,
    queue: str,
    toolbox: BoundToolbox,
    progress: ProgressCallback,
    preparation: Preparation = UNPREPARED,
) -> Verdict:
    # What `auto` means was decided when the queue was chosen; this machine may have a GPU that another worker uses.
    submission = submission.model_copy(update={"backend": backend_of(queue)})
    try:
        target = toolbox.referee(submission)
    except UsageError as error:
        return _failed(submission, GpuError(str(error), error.remedy))
    except InfrastructureError as fault:
        return _failed(submission, fault)
    try:
        return evaluate(submission, toolbox, progress=progress, preparation=preparation, problem=problem)
    except ReferenceRefusedError:
        raise  # held against the problem
    except UsageError as error:
        job = GradingJob(submission, problem, toolbox, target, source_bytes(submission))
        ruling = Ruling(Status.INVALID_SUBMISSION, Phase.LAUNCH, str(error), error.remedy)
        return build_verdict(job, Ending(job.submitted, ruling))


def _failed(submission: Submission, fault: InfrastructureError) -> Verdict:
    return verdict_without_result(submission.problem, submission.backend, fault.ruling())


# ---- storing what came of it ----


def _conclude(
    outcome: Verdict | _HandOff,
    lease: Lease,
    toolbox: BoundToolbox,
    tools: Tools,
    heart: "_Heartbeat",
    used_s: float,
) -> str:
    """Store the outcome; what was done, in words. `used_s`: what it took of processors. Raises StorageError."""

    def retry(act: Callable[[], bool]) -> bool:
        return _insist(act, tools.shift)

    def again(counted: bool, yielded: bool = False) -> bool:
        # Of a job that was ended in the middle nobody knows what it took: then its time is charged.
        known_s = None if toolbox.cancel_token.cancelled else used_s
        back = retry(lambda: tools.leases.give_back(lease, counted=counted, yielded=yielded, used_s=known_s))
        if back:
            tools.announcer.announce(lease.evaluation_id, lease.queue)
        return back

    if isinstance(outcome, _HandOff):
        done = outcome.preparation
        passed_on = retry(
            lambda: tools.leases.pass_on(lease, outcome.queue, done.compiled_s, done.worked_s, used_s=used_s)
        )
        if not passed_on:
            return "lost"
        tools.announcer.announce(lease.evaluation_id, outcome.queue)
        return f"passed on to {outcome.queue}"
    if outcome.status is Status.CANCELLED:
        if tools.shift.cancelled:
            return "given back" if again(counted=False) else "lost"
        if heart.yields:
            return "makes room for another tenant" if again(counted=False, yielded=True) else "lost"
        stored = tools.evaluations.get(lease.evaluation_id, None)
        if stored is None or stored.wanted:
            return "lost"
    if outcome.status is Status.INTERNAL_ERROR:
        _LOG.warning("a fault of ours", message=outcome.message, hint=outcome.hint)
        if not has_room(toolbox.settings.data_dir):
            return "to be tried again when there is room" if again(counted=False) else "lost"
        if tools.draining():
            return "given back" if again(counted=False) else "lost"
        if toolbox.killed_from_outside and not lease.alone:
            if not retry(lambda: tools.leases.lose(lease)):
                return "lost"
            tools.announcer.announce(lease.evaluation_id, lease.queue)
            return "killed from outside: to be tried again"
        if lease.attempt < MAX_ATTEMPTS:
            return "to be tried again" if again(counted=True) else "lost"
    phases_s = _phases_s(outcome, lease)
    stored_it = retry(lambda: tools.leases.finish(lease, outcome, phases_s, toolbox.starts_s, used_s=used_s))
    return outcome.status.value if stored_it else "lost"


def _phases_s(verdict: Verdict, lease: Lease) -> Mapping[str, float]:
    phases_s = dict(verdict.receipt.phases_s) if verdict.receipt else {}
    if lease.compiled_s is not None:
        phases_s[Phase.COMPILE] = lease.compiled_s
    return phases_s


def _insist(act: Callable[[], Answer], shift: CancelToken) -> Answer:
    """Try again while the store cannot be reached. Raises StorageError where that takes too long."""
    started_s, pause_s = time.monotonic(), 0.1
    while True:
        try:
            return act()
        except StorageError:
            waited_s = time.monotonic() - started_s
            if waited_s > (_PATIENCE_AT_THE_END_S if shift.cancelled else _PATIENCE_S):
                raise
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 2.0)


class _Heartbeat:
    """Beats while the work goes on: renews the lease, writes down what is being done, and notices a cancel, and a
    tenant without a worker for which this one is to be left.
    """

    def __init__(self, lease: Lease, tools: Tools, cancel_token: CancelToken) -> None:
        self._lease, self._lease_s, self._cancel_token = lease, tools.lease_s, cancel_token
        self._evaluations, self._leases, self._queues = tools.evaluations, tools.leases, tools.queues
        self.yields = False
        """Whether the work was stopped so that another tenant gets a worker."""
        self._said = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heart", daemon=True)

    def note(self, event: Progress) -> None:
        """What is being done now; costs nothing."""
        self._said = str(event)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _beat(self) -> None:
        now_s = time.monotonic()
        began_s = renewed_s = written_s = now_s
        written, version = "", self._lease.version
        while not self._over.wait(min(_LOOK_S, self._lease_s / 4)) and not self._cancel_token.cancelled:
            try:
                now_s = time.monotonic()
                seen = self._evaluations.watch([self._lease.evaluation_id]).get(self._lease.evaluation_id)
                # A dropped evaluation has a new version; what else changed it costs no more than a renewal.
                if seen is None or seen[0] != version or now_s - renewed_s > self._lease_s / 3:
                    if seen is None or not self._leases.renew(self._lease, self._lease_s):
                        self._cancel_token.cancel()
                        return
                    version, renewed_s = seen[0], now_s
                if self._said != written and now_s - written_s > _PROGRESS_S:
                    written, written_s = self._said, now_s
                    self._leases.progress(self._lease, written)
                if now_s - began_s > YIELD_AFTER_S and self._leases.has_to_yield(self._lease, self._queues):
                    self.yields = True
                    self._cancel_token.cancel()
                    return
            except StorageError as fault:
                # The work goes on: nobody else can take the lease while the store is away, and if someone did in
                # the end, the store would refuse this verdict.
                _LOG.warning("the lease could not be renewed", error=str(fault))
            except Exception:
                _LOG.exception("the heart missed a beat")
