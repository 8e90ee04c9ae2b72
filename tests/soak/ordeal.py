"""Many evaluations go through a service that is killed at meanwhile; then the books are checked."""

import json
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from mix import mix

from common.client import Client, EvaluatorError, NoVerdictError
from common.contract import Status
from evaluator.service.storage import counters

CONCURRENCY = 24
PATIENCE_S = 300.0
"""A machine whose processors are wanted by hundreds takes two minutes to start a server."""
MIN_BETWEEN = 3
"""Verdicts between two kills, unless none come for STANDSTILL_S."""
STANDSTILL_S = 60.0


@dataclass
class Account:
    """What came of it."""

    evaluations: int
    seconds: float
    kills: dict[str, int]
    false: list[str] = field(default_factory=list)
    """Verdicts that are wrong about their submission, in words."""
    ours: list[str] = field(default_factory=list)
    """Verdicts `internal_error`: no reward, and what is to blame."""
    unanswered: list[str] = field(default_factory=list)
    """Submissions for which the client got no verdict at all."""
    books: list[str] = field(default_factory=list)
    """What the database says that does not agree with what the client got, or with itself."""
    left_over: list[str] = field(default_factory=list)
    """Processes and temporary files."""
    requeued: dict[str, float] = field(default_factory=dict)
    """How often evaluations went back into the queue, by reason."""

    @property
    def faults(self):
        return self.false + self.ours + self.unanswered + self.books + self.left_over

    def figures(self):
        return {
            "evaluations": self.evaluations,
            "seconds": round(self.seconds, 1),
            "kills": sum(self.kills.values()),
            "requeued": sum(self.requeued.values()),
            "false_verdicts": len(self.false),
            "internal_errors": len(self.ours),
            "unanswered": len(self.unanswered),
            "lost_or_doubled": len(self.books),
            "left_over": len(self.left_over),
        }


class Killer(threading.Thread):
    """Kills one victim after another, each as often as the others, in an order that the seed gives."""

    def __init__(self, setup, seed, done, *, pause_s=None, due=None):
        """Kills every `pause_s` or so; or as soon as `due` asks for more kills than there have been.

        `done`: how many verdicts there are. A machine that is too slow to get anywhere in a pause gets more time.
        """
        super().__init__(name="killer")
        self._setup, self._chance, self._done = setup, random.Random(seed), done
        self._pause_s, self._due = pause_s, due
        self._over = threading.Event()
        self.kills = Counter()
        self.failure = None

    def run(self):
        try:
            victims = self._setup.victims
            order = []
            while self._wait():
                if not order:
                    order = list(victims)
                    self._chance.shuffle(order)
                name = order.pop()
                self._setup.census.take(self._setup.roots())
                victims[name](self._chance)
                self.kills[name] += 1
        except BaseException as error:
            self.failure = error

    def _wait(self):
        """False once it is over."""
        if self._pause_s is not None:
            before = self._done()
            if self._over.wait(self._chance.uniform(0.5, 1.5) * self._pause_s):
                return False
            until_s = time.monotonic() + STANDSTILL_S
            while self._done() < before + MIN_BETWEEN and time.monotonic() < until_s:
                if self._over.wait(0.1):
                    return False
            return True
        while self._due() <= sum(self.kills.values()):
            if self._over.wait(0.02):
                return False
        return True

    def stop(self):
        """Kill no more; raises what went wrong with the killing."""
        self._over.set()
        self.join()
        if self.failure:
            raise self.failure


def ordeal(setup, count, seed, *, pause_s=None, kills=0, concurrency=CONCURRENCY):
    """Send `count` evaluations through `setup`, kill meanwhile, stop it all, and check.

    Kills every `pause_s` or so; or `kills` times, evenly over the first two thirds of the verdicts.
    """
    sent = mix(count, seed)
    outcomes = [None] * count
    account = Account(count, 0.0, {})
    setup.start()
    started_s = time.monotonic()

    def done():
        return sum(outcome is not None for outcome in outcomes)

    def due():
        return min(kills, 1 + int(1.5 * kills * done() / count)) if done() else 0

    killer = Killer(setup, seed, done, pause_s=pause_s, due=due)
    killer.start()
    try:
        with Client(setup.url, setup.key, wait_s=10.0, patience_s=PATIENCE_S) as client:
            turns = iter(range(count))

            def send():
                while (index := next(turns, None)) is not None:
                    outcomes[index] = _outcome(client, sent[index])

            _in_threads(send, concurrency)
    finally:
        killer.stop()
    account.seconds = time.monotonic() - started_s
    account.kills = dict(killer.kills)
    for one, outcome in zip(sent, outcomes, strict=True):
        if isinstance(outcome, EvaluatorError):
            account.ours.append(f"{one.right}: {outcome}")
        elif isinstance(outcome, NoVerdictError):
            account.unanswered.append(f"{one.right}: {outcome}")
        elif outcome.status is not one.right:
            account.false.append(f"{one.right} became {outcome.status}: {outcome.message} {outcome.hint}")
    setup.stop()
    account.left_over = setup.left_over()
    _check_the_books(setup, sent, outcomes, account)
    return account


def _outcome(client, one):
    try:
        return client.evaluate(one.submission, fresh=one.fresh)
    except NoVerdictError as error:
        return error


def _in_threads(work, count):
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _check_the_books(setup, sent, outcomes, account):
    """Everything accepted is finished, once, with the verdict that its caller got."""
    storage = setup.storage()
    try:
        rows, cursor = [], None
        while True:
            page = storage.evaluations.list(None, cursor=cursor, limit=200)
            # A list leaves the sources out.
            rows += [storage.evaluations.get(item.id, None) for item in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
        tally = Counter()
        for one in storage.counters.tallies():
            tally[one.name, one.labels.get("answer") or one.labels.get("reason") or ""] += one.value
    finally:
        storage.database.close()
    account.requeued = {reason: value for (name, reason), value in tally.items() if name == counters.REQUEUED}
    complain = account.books.append
    for row in rows:
        if row.state != "done" or row.verdict is None:
            complain(f"{row.id} is {row.state}")
    created, finished = tally[counters.ACCEPTED, "created"], tally[counters.FINISHED, ""]
    if not created == finished == len(rows):
        complain(f"{created:g} were accepted, {finished:g} finished, and there are {len(rows)}")
    # Each submission needs one evaluation for each time that a new verdict was asked for, and at least one.
    wanted, atleast = Counter(), set()
    for one in sent:
        body = one.submission.model_dump_json()
        wanted[body] += one.fresh
        atleast.add(body)
    most = Counter(one.submission.model_dump_json() for one in sent)
    there = Counter(row.submission.model_dump_json() for row in rows)
    for body in atleast | set(there):
        if not max(1, wanted[body]) <= there[body] <= most[body]:
            source = json.loads(body)["source"][-40:]
            complain(f"{there[body]} evaluations of …{source!r}, which was sent {most[body]} times")
    # Each verdict that a caller holds is one that the database holds.
    held = Counter(row.verdict.model_dump_json() for row in rows if row.verdict)
    for outcome in outcomes:
        verdict = outcome.verdict if isinstance(outcome, EvaluatorError) else outcome
        if isinstance(verdict, NoVerdictError):
            continue
        if not held[verdict.model_dump_json()]:
            complain(f"a caller holds a verdict ({verdict.status}) that the database does not")
        if verdict.status is Status.INTERNAL_ERROR and verdict.reward is not None:
            complain("an internal_error has a reward")
