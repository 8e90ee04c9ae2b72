"""Real processes that do one thing with one database, all at the same moment."""

import multiprocessing
from collections.abc import Callable
from typing import Any

from storage_samples import SUBMISSION, accept, ended

from evaluator.service.storage.models import QueueFullError, QuotaExceededError
from evaluator.service.storage.secrets import Quota
from evaluator.service.storage.storage import Storage, open_storage

_PATIENCE_S = 120
_line: Any = None


def crowd(count: int, act: Callable[[Storage, str], list[str]], url: str) -> list[list[str]]:
    """What `act(storage, name)` gave in each of `count` processes, which began when all of them were ready."""
    # Forked from a process that has imported everything and has no threads.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", "evaluator.service.storage.storage"])
    line = context.Barrier(count, timeout=_PATIENCE_S)
    with context.Pool(count, initializer=_stand_at, initargs=(line,)) as pool:
        work = [(act, url, f"w{i}") for i in range(count)]
        return pool.starmap_async(_one, work, chunksize=1).get(timeout=_PATIENCE_S)


def _stand_at(line):
    global _line
    _line = line


def _one(act, url, name):
    storage = open_storage(url)
    storage.database.ping()
    _line.wait()
    return act(storage, name)


def work(storage, name):
    """Claim and finish until nothing waits; the ids."""
    done = []
    while lease := storage.leases.claim(["compile", "sim"], name, 30):
        assert storage.leases.renew(lease, 30)
        assert storage.leases.progress(lease, name)
        assert storage.leases.finish(lease, ended(message=name), {"compile": 0.1, "verify": 0.2}, [0.1])
        done.append(lease.evaluation_id)
    return done


def work_in_stages(storage, name):
    """Compile and pass on, judge, and give back each job of the first attempt once; the ids finished."""
    done, given_back = [], set()
    while lease := storage.leases.claim(["compile", "sim"], name, 30):
        if lease.evaluation_id not in given_back:
            given_back.add(lease.evaluation_id)
            assert storage.leases.give_back(lease)
        elif lease.stage == "compile":
            assert storage.leases.pass_on(lease, "sim", 0.1)
        elif storage.leases.finish(lease, ended(message=name), {}):
            done.append(lease.evaluation_id)
    return done


def accept_until_full(storage, name):
    made = []
    for _ in range(10):
        try:
            made.append(accept(storage, tenant=name, max_queued=37).evaluation.id)
        except QueueFullError:
            made.append("full")
    return made


def accept_within_quota(storage, quota):
    made = []
    for _ in range(10):
        try:
            made.append(accept(storage, tenant="t", quota=quota).evaluation.id)
        except QuotaExceededError as error:
            made.append(error.which)
    return made


def accept_a_few_a_minute(storage, name):
    return accept_within_quota(storage, Quota(per_minute=23))


def accept_a_few_at_once(storage, name):
    return accept_within_quota(storage, Quota(concurrent=23))


def accept_the_same(storage, name):
    return [accept(storage, SUBMISSION, idempotency_key="k", reuse_key="r").evaluation.id for _ in range(3)]


def drop_and_finish(storage, name):
    """Each tries to end every evaluation there is, oldest first; the ids that it ended itself."""
    items = storage.evaluations.list(None, limit=100).items
    mine = []
    for item in reversed(items):
        lease = storage.leases.claim(["compile"], name, 30)
        if lease and storage.leases.finish(lease, ended(message=name), {}):
            mine.append(lease.evaluation_id)
        storage.evaluations.drop(item.id, None)
    return mine


def sweep(storage, name):
    """Six sweeps by one whose steady clock runs very fast."""
    steps = iter(range(0, 1000, 10))
    url = str(storage.database._url.render_as_string(hide_password=False))
    fast = open_storage(url, steady_clock=lambda: float(next(steps)))
    requeued = []
    for _ in range(6):
        requeued += [evaluation_id for evaluation_id, _ in fast.sweeps.sweep().requeued]
    return requeued
