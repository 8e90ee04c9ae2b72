"""Evaluations whose own processes are hit by signals: the worker, the wardens, what isolates, compilers, kernels."""

import contextlib
import random
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from mix import SOURCES
from processes import kill

from common.client import Client, EvaluatorError, NoVerdictError
from common.contract import Settings, Status, Submission

LANES = 2
"""Evaluations at one time, as many as workers."""
WITHIN_S = 0.8
"""An evaluation is hit at a moment drawn from this time after a worker took it, and after the last hit; it takes
about so long."""
MOST_TRIES = 8
"""Kernels to judge for each that is to be hit, at most: some are over before."""
STOPPED_S = (0.05, 1.5)
"""How long what gets SIGSTOP waits for its SIGCONT, at least and at most."""
WORKER_SHARE = 0.06
"""Share of the strikes that hit the worker itself: to start another takes as long as several evaluations."""
NAMES = ("KILL", "TERM", "INT", "HUP", "QUIT", "ABRT", "SEGV", "BUS", "FPE", "ILL", "PIPE", "ALRM", "USR1", "XCPU")
SIGNALS = (*(getattr(signal, f"SIG{name}") for name in NAMES), signal.SIGSTOP, signal.SIGSTOP, signal.SIGSTOP)


@dataclass
class Pressed:
    """What came of it."""

    evaluations: int = 0
    disturbed: int = 0
    """Of those, how many had one of their processes hit."""
    strikes: Counter = field(default_factory=Counter)
    """By signal and by what was hit: a worker, or a process below one."""
    false: list[str] = field(default_factory=list)
    ours: list[str] = field(default_factory=list)
    """Verdicts `internal_error` without a reward."""
    unanswered: list[str] = field(default_factory=list)

    def figures(self):
        return {
            "evaluations": self.evaluations,
            "disturbed": self.disturbed,
            "strikes": sum(self.strikes.values()),
            "false_verdicts": len(self.false),
            "internal_errors": len(self.ours),
            "unanswered": len(self.unanswered),
        }


def essence(verdict):
    """What of a verdict is the same each time that a kernel is judged; inputs are drawn anew, and so are messages."""
    return verdict.status, verdict.phase, verdict.reward


def submission_of(status, mark):
    settings = Settings(verification="quick", run_timeout_s=2.0 if status is Status.TIMEOUT else 30.0)
    return Submission(problem="relu", source=f"{SOURCES[status]}// {mark}\n", backend="sim", settings=settings)


def press(setup, count, seed, tell=lambda pressed: None):
    """Judge kernels on `setup`, which runs, until `count` of them were hit, each once to three times.

    All are compared with the undisturbed verdict. `tell` gets what has come of it so far, after each kernel.
    """
    chance, lock, found = random.Random(seed), threading.Lock(), Pressed()
    with Client(setup.url, setup.key, wait_s=10.0, patience_s=240.0) as client:
        undisturbed = {status: essence(client.evaluate(submission_of(status, "calm"))) for status in SOURCES}
        assert {status: one[0] for status, one in undisturbed.items()} == {status: status for status in SOURCES}
        turns = iter(range(MOST_TRIES * count))

        def lane():
            while True:
                with lock:
                    index = next(turns, None) if found.disturbed < count else None
                    own = random.Random(chance.random())
                if index is None:
                    return
                _press_one(setup, client, index, own, undisturbed, found, lock)
                with lock:
                    tell(found)

        threads = [threading.Thread(target=lane) for _ in range(LANES)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return found


def _press_one(setup, client, index, chance, undisturbed, found, lock):
    status = chance.choice(list(SOURCES))
    # Half of them are compiled anew.
    sent = submission_of(status, index if chance.random() < 0.5 else "calm")
    over, struck = threading.Event(), []
    hitting = threading.Thread(target=_hit, args=(setup, sent, chance, over, struck))
    hitting.start()
    verdict = None
    try:
        verdict = client.evaluate(sent, fresh=True)
    except EvaluatorError as error:
        verdict = error.verdict
    except NoVerdictError as error:
        with lock:
            found.unanswered.append(f"{status}: {error}")
    over.set()
    hitting.join()
    with lock:
        found.evaluations += 1
        found.disturbed += bool(struck)
        found.strikes.update(struck)
        if verdict is None or essence(verdict) == undisturbed[status]:
            return
        told = f"{status} became {verdict.status} in {verdict.phase} after {struck}: {verdict.message} {verdict.hint}"
        is_ours = verdict.status is Status.INTERNAL_ERROR and verdict.reward is None
        (found.ours if is_ours else found.false).append(told)


def _hit(setup, sent, chance, over, struck):
    storage = setup.storage()
    try:
        while _worker_of(storage, sent) is None:
            if over.wait(0.02):
                return
        for _ in range(chance.randint(1, 3)):
            if over.wait(chance.uniform(0.0, WITHIN_S)):
                return
            worker = _worker_of(storage, sent)
            if worker is None:
                continue
            own, inside = setup.processes_of(worker)
            targets = [own] if chance.random() < WORKER_SHARE else inside
            if not targets or targets == [None]:
                continue
            what, pid = "worker" if targets == [own] else "below", chance.choice(targets)
            number = chance.choice(SIGNALS)
            kill(pid, number)
            struck.append(f"{number.name} {what}")
            if number is signal.SIGSTOP:
                time.sleep(chance.uniform(*STOPPED_S))
                kill(pid, signal.SIGCONT)
    finally:
        storage.database.close()


def _worker_of(storage, sent):
    """The worker that has this evaluation now; None where none has."""
    with contextlib.suppress(Exception):
        for worker in storage.workers.fleet(60):
            if worker.busy_with is not None:
                one = storage.evaluations.get(worker.busy_with, None)
                if one.state == "running" and one.submission.source == sent.source:
                    return worker
    return None
