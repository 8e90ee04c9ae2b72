"""One worker process: it is on the fleet's list, works on one lease after another, and ends without losing any.

Two things end it. A *drain* (SIGTERM) lets it finish what it has, and gives that back once the grace is over. The end
of the process that started it (its pipe hangs up) gives it back at once.
"""

import contextlib
import json
import os
import secrets
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any, Final

from evaluator import __version__
from evaluator.cancellation import CancelledError, CancelToken
from evaluator.errors import AssayError, GpuError, InternalError, StorageError, UsageError
from evaluator.foreign.reference import why_no_references
from evaluator.pipeline.toolbox import Toolbox
from evaluator.service import logs
from evaluator.service.storage.evaluations import EvaluationRepository
from evaluator.service.storage.leases import LeaseRepository
from evaluator.service.storage.models import FIRST_QUEUE, WorkerFacts, is_gpu_queue, is_queue
from evaluator.service.storage.storage import open_storage
from evaluator.service.storage.workers import WorkerRepository
from evaluator.service.workers.task import Announcer, Tools, has_room, perform
from evaluator.settings import MachineSettings, ServiceSettings

GRACE_S: Final = 30.0
"""How long a drained worker may go on with what it has."""
_SEEN_EVERY_S: Final = 5.0
_ASK_EVERY_S: Final = 1.0
"""How often an idle worker looks into the store although nobody has woken it."""
_LOOK_FOR_ROOM_S: Final = 0.5
_LOOK_AT_REFEREE_S: Final = 1.0
"""How often a worker with a GPU looks whether its referee could be started."""
_BUILDING: Final = (
    "It builds the simulator's runtime, which takes some seconds, once for each data folder, compiler and version."
)
_BUILD_AGAIN_S: Final = 2.0
"""Between two tries to build it: someone who kills compilers, or fills the disk, may have ended by then."""
_LONGEST_PAUSE: Final = 15
"""In such pauses: they grow from one to so many, since each failure is logged."""
_FAILURES_THAT_LAST: Final = 3
"""After so many failures, whatever comes is taken, and ends with the reason."""
_LAST_WORDS_S: Final = 20.0
"""How long a worker whose starter is gone may take to give back what it has."""

_LOG = logs.logger("worker")


class Worker:
    """The worker that this process is. `take` is for one thread at a time."""

    def __init__(
        self,
        evaluations: EvaluationRepository,
        leases: LeaseRepository,
        workers: WorkerRepository,
        toolbox: Toolbox,
        announcer: Announcer,
        queues: tuple[str, ...],
        *,
        lease_s: float = 20.0,
        grace_s: float = GRACE_S,
    ) -> None:
        """Raises InfrastructureError where this machine cannot serve `queues`."""
        self.id = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self.draining = threading.Event()
        self._leases, self._workers, self._toolbox = leases, workers, toolbox
        self._tools = Tools(
            evaluations, leases, workers, announcer, queues, CancelToken(), lease_s, self.draining.is_set
        )
        self._grace_s = grace_s
        self._idle = threading.Event()
        self._idle.set()
        self._over = threading.Event()
        self._presence = threading.Thread(target=self._show, name="presence", daemon=True)
        self._trouble: str | None = None
        self._preparing: str | None = None
        self._prepared = threading.Event()
        self._prepared.set()
        self._preparation = CancelToken()
        self._attendance = threading.Thread(target=self._attend, name="attendance", daemon=True)
        self._facts = look_around(toolbox, queues, self.id)
        self._tools = replace(self._tools, references=self._facts.no_references is None)

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that this worker serves."""
        return self._tools.queues

    def start(self) -> None:
        """Get onto the fleet's list, and stay there; build what jobs need, before the first one is taken."""
        judges = any(queue != FIRST_QUEUE for queue in self.queues)  # who only compiles needs no simulator
        if judges:
            self._prepared.clear()
            self._preparing = _BUILDING
        with contextlib.suppress(StorageError):  # `_show` tries again
            self._workers.register(replace(self._facts, preparing=self._preparing))
        self._presence.start()
        if judges:
            threading.Thread(target=self._prepare, name="preparation", daemon=True).start()
        if self._facts.serves_gpu:
            self._attendance.start()

    def close(self) -> None:
        """Leave the fleet's list."""
        self._over.set()
        self._preparation.cancel()
        self._presence.join()
        with contextlib.suppress(StorageError):
            self._workers.gone(self.id)

    def take(
        self, queues: tuple[str, ...] | None = None, tell: Callable[[dict[str, Any]], None] = lambda news: None
    ) -> bool:
        """Claim the next evaluation of `queues` (None: all of this worker's) and work on it to its end.

        False where there is none, or no store, or a drain has begun. `tell` hears `{"took": …}` (enough of the lease
        to hand it on, should this process die) and `{"left": id}`.
        """
        self._await_room()
        self._await_preparation()
        self._idle.clear()
        try:
            if self.draining.is_set():
                return False
            tools = replace(self._tools, queues=self._able())
            able = tuple(queue for queue in queues or tools.queues if queue in tools.queues)
            lease = self._leases.claim(able, self.id, tools.lease_s, references=tools.references) if able else None
            if lease is None:
                return False
            tell({"took": {"id": lease.evaluation_id, "token": lease.token, "attempt": lease.attempt}})
            perform(lease, self._toolbox, tools)
            tell({"left": lease.evaluation_id})
            return True
        except StorageError as fault:
            _LOG.warning("nothing can be claimed", error=str(fault))
            return False
        finally:
            self._idle.set()

    def _able(self) -> tuple[str, ...]:
        """The queues that this worker can serve now: without those of its GPU while the referee cannot be started.

        What waits there is tried again once the next start is due. Where that has failed for long, it is taken, and
        ends with the reason; but where another worker's GPU can be used, it is left to that.
        """
        referee = self._toolbox.gpu if self._facts.serves_gpu else None
        trouble = referee.trouble if referee is not None else None
        if trouble is None:
            return self.queues
        others = [worker for worker in self._workers.fleet() if worker.id != self.id]
        in_order = {queue for worker in others if worker.trouble is None for queue in worker.queues}
        return tuple(
            queue for queue in self.queues if not is_gpu_queue(queue) or (trouble.lasting and queue not in in_order)
        )

    def _await_room(self) -> None:
        """Wait while the disk is full, unless this worker drains: each attempt would fail, and use up the next."""
        said = False
        while not has_room(self._toolbox.settings.data_dir):
            if not said:
                _LOG.error("no room on the disk: nothing is claimed until there is")
                said = True
            if self.draining.wait(_LOOK_FOR_ROOM_S):
                return
        if said:
            _LOG.info("there is room on the disk again")

    def end_with(self, starter: int, drains: Sequence[int], leave: int | None = None) -> None:
        """Watch these descriptors from now on.

        When `starter` hangs up (the writers of this pipe are gone) the process ends. When one of `drains` has
        something to read, a drain begins; with `leave` too, and the process ends once it has nothing to do. `starter`
        may be among `drains`; nobody else may read from it then.
        """
        threading.Thread(target=self._watch, args=(starter, drains, leave), name="lifeline", daemon=True).start()

    def _watch(self, starter: int, drains: Sequence[int], leave: int | None) -> None:
        poll = select.poll()
        poll.register(starter, 0)
        watched = (*drains, *(() if leave is None else (leave,)))
        for descriptor in watched:
            poll.register(descriptor, select.POLLIN)
        until_s: float | None = None
        while not self._tools.shift.cancelled:
            left_ms = None if until_s is None else max(0, int(1000 * (until_s - time.monotonic())))
            events = dict(poll.poll(left_ms))
            if events.get(starter, 0) & (select.POLLHUP | select.POLLERR | select.POLLNVAL):
                self._leave("the process that started this worker is gone")
            if events and until_s is None:
                _LOG.info("draining", grace_s=self._grace_s)
                self._begin_drain()
                until_s = time.monotonic() + self._grace_s
                for descriptor in watched:
                    poll.unregister(descriptor)
                poll.register(starter, 0)
                if leave in events:
                    threading.Thread(target=self._leave_when_idle, name="leaving", daemon=True).start()
            if until_s is not None and time.monotonic() >= until_s:
                self._tools.shift.cancel()
        self._wait_for_the_end(poll)

    def _wait_for_the_end(self, poll: "select.poll") -> None:
        poll.poll()
        self._leave("the process that started this worker is gone")

    def _begin_drain(self) -> None:
        self.draining.set()
        self._preparation.cancel()

    def _leave_when_idle(self) -> None:
        self._idle.wait()
        self._leave("it was told to end")

    def _leave(self, why: str) -> None:
        """Give back, say goodbye, and go, whatever the other threads are at."""
        _LOG.warning("this worker ends", why=why)
        self._begin_drain()
        threading.Timer(_LAST_WORDS_S, os._exit, (1,)).start()
        self._tools.shift.cancel()
        self._idle.wait()
        with contextlib.suppress(StorageError):
            self._workers.gone(self.id)
        os._exit(0)

    # -- the fleet --

    def _show(self) -> None:
        while not self._over.wait(_SEEN_EVERY_S):
            self._say_so()

    def _say_so(self) -> None:
        """Tell the store that this worker lives, and how."""
        try:
            draining, trouble, preparing = self.draining.is_set(), self._trouble, self._preparing
            if not self._workers.seen(self.id, draining=draining, trouble=trouble, preparing=preparing):
                self._workers.register(replace(self._facts, trouble=trouble, preparing=preparing))
        except StorageError as fault:
            _LOG.warning("the heartbeat of this worker could not be stored", error=str(fault))
        except Exception:
            _LOG.exception("the heartbeat of this worker could not be stored")

    # -- what is made once for each machine --

    def _prepare(self) -> None:
        """Build what the first job would have to wait for; again, where that failed, until it is there.

        Nothing is taken before. But where it goes on failing, the jobs have to say why: then they are taken.
        """
        failures = 0
        while (reason := self._not_built()) is not None:
            if self.draining.is_set() or self._over.is_set():
                return
            failures += 1
            _LOG.error("what every job needs could not be built", reason=reason, failures=failures)
            self._preparing = f"{_BUILDING} That has failed: {reason}"
            if failures >= _FAILURES_THAT_LAST:
                self._prepared.set()
            self._say_so()
            if self._over.wait(_BUILD_AGAIN_S * min(failures, _LONGEST_PAUSE)):
                return
        self._preparing = None
        self._prepared.set()
        self._say_so()

    def _not_built(self) -> str | None:
        """Build the simulator's runtime, unless it is there: why that was not possible, in words."""
        try:
            self._toolbox.bound_to(self._preparation).simulator.warm_up()
        except CancelledError:
            return "it was stopped"
        except AssayError as fault:
            return str(fault)
        except Exception as error:
            _LOG.exception("a mistake of our own")
            return str(InternalError(error))
        return None

    def _await_preparation(self) -> None:
        while not self._prepared.wait(_LOOK_FOR_ROOM_S):
            if self.draining.is_set():
                return

    # -- the referee of its GPU --

    def _attend(self) -> None:
        """Start the referee ahead of the first job, and again whenever it could not be started and that is due."""
        referee = self._toolbox.gpu
        assert referee is not None
        trouble = referee.start()
        while True:
            reason = trouble.reason if trouble is not None else None
            if reason != self._trouble:
                self._trouble = reason
                if trouble is not None:
                    _LOG.error("the GPU's referee cannot be started", reason=reason, remedy=trouble.remedy)
                else:
                    _LOG.info("the GPU's referee can be started again")
                self._say_so()
            if self._over.wait(_LOOK_AT_REFEREE_S):
                return
            trouble = referee.trouble
            if trouble is not None and time.monotonic() >= trouble.due_s:
                trouble = referee.start()


def look_around(toolbox: Toolbox, queues: tuple[str, ...], worker_id: str) -> WorkerFacts:
    """What a worker for `queues` is here. Raises UsageError, InfrastructureError where there can be none."""
    unknown = [queue for queue in queues if not is_queue(queue)]
    if unknown or not queues:
        raise UsageError(
            f"A worker cannot serve these queues: {', '.join(unknown) or 'none'}.",
            "Name some of compile, sim, gpu and gpu.UUID, with commas between them.",
        )
    on_gpu = any(map(is_gpu_queue, queues))
    if on_gpu and toolbox.gpu is None:
        raise GpuError("This worker is to serve a GPU, and none can be used here.", "Run `assay doctor`.")
    venue = toolbox.gpu if on_gpu and toolbox.gpu is not None else toolbox.simulator
    signer = toolbox.signer
    if signer is None:
        raise StorageError(
            f"No key to sign verdicts with can be kept in {toolbox.settings.data_dir}.",
            "Make the folder writable, or set ASSAY_SIGNING_KEY.",
        )
    now = time.time()
    return WorkerFacts(
        id=worker_id,
        host=socket.gethostname(),
        pid=os.getpid(),
        queues=queues,
        backend=venue.name,
        device=venue.device,
        arch=venue.arch,
        toolchain=toolbox.toolchain.label,
        sandbox=toolbox.sandbox.name,
        grader_version=__version__,
        signing_key=signer.public_key,
        no_references=None if (missing := why_no_references(toolbox.sandbox)) is None else str(missing),
        started_at=now,
        seen_at=now,
    )


def run_embedded(machine: MachineSettings, settings: ServiceSettings) -> None:
    """Be a worker inside a server (see embedded.py): claim and work until drained.

    A byte on standard input means that there may be something to do; when it hangs up, the process ends. Standard
    output carries what the pool has to know, as JSON lines. Raises UsageError, InfrastructureError.
    """
    logs.configure()
    wake, said = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # whatever prints has no place among the news

    def tell(news: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # nobody hears: then this process ends anyway
            os.write(said, json.dumps(news).encode() + b"\n")

    toolbox, storage = Toolbox(machine), open_storage(settings.database_url)
    queues = ("compile", "sim", "gpu") if toolbox.gpu is not None else ("compile", "sim")
    worker = Worker(
        storage.evaluations,
        storage.leases,
        storage.workers,
        toolbox,
        _Unheard(),
        queues,
        lease_s=settings.lease_s,
        grace_s=settings.drain_s,
    )
    drain, begin_drain = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def on_signal(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(begin_drain, b"d")

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    os.set_blocking(wake, False)
    worker.end_with(wake, (drain,))
    tell({"worker": worker.id})
    worker.start()
    _work_until_drained(worker, wake, drain, tell)
    worker.close()


def _work_until_drained(worker: Worker, wake: int, drain: int, tell: Callable[[dict[str, Any]], None]) -> None:
    """Take what there is; while there is nothing, look again at each byte of `wake`, and once in a while."""
    while not worker.draining.is_set():
        if worker.take(tell=tell):
            continue
        ready, _, _ = select.select([wake, drain], [], [], _ASK_EVERY_S)
        if drain in ready:
            return
        if wake in ready:
            with contextlib.suppress(BlockingIOError):  # another worker was quicker
                os.read(wake, 1)


class _Unheard:
    """Embedded workers look into the store on their own; one that has something to pass on judges it at once."""

    def announce(self, evaluation_id: str, queue: str) -> None:
        """Nothing to do."""
