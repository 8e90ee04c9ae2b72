"""Real processes that do one thing with one database, all at the same moment."""

import multiprocessing
from collections.abc import Callable
from typing import Any

from store_samples import SUBMISSION, accept, ended

from evaluator.service.storage.evaluations import QueueFullError, Quota, QuotaExceededError, Store

_PATIENCE_S = 120
_line: Any = None


def crowd(count: int, act: Callable[[Store, str], list[str]], url: str) -> list[list[str]]:
    """What `act(store, name)` gave in each of `count` processes, which began when all of them were ready."""
    # Forked from a process that has imported everything and has no threads.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", "evaluator.service.storage.evaluations"])
    line = context.Barrier(count, timeout=_PATIENCE_S)
    with context.Pool(count, initializer=_stand_at, initargs=(line,)) as pool:
        work = [(act, url, f"w{i}") for i in range(count)]
        return pool.starmap_async(_one, work, chunksize=1).get(timeout=_PATIENCE_S)


def _stand_at(line):
    global _line
    _line = line


def _one(act, url, name):
    store = Store(url)
    store.ping()
    _line.wait()
    return act(store, name)


def work(store, name):
    """Claim and finish until nothing waits; the ids."""
    done = []
    while lease := store.claim(["compile", "sim"], name, 30):
        assert store.renew(lease, 30)
        assert store.progress(lease, name)
        assert store.finish(lease, ended(message=name), {"compile": 0.1, "verify": 0.2}, [0.1])
        done.append(lease.evaluation_id)
    return done


def work_in_stages(store, name):
    """Compile and pass on, judge, and give back each job of the first attempt once; the ids finished."""
    done, given_back = [], set()
    while lease := store.claim(["compile", "sim"], name, 30):
        if lease.evaluation_id not in given_back:
            given_back.add(lease.evaluation_id)
            assert store.give_back(lease)
        elif lease.stage == "compile":
            assert store.pass_on(lease, "sim", 0.1)
        elif store.finish(lease, ended(message=name), {}):
            done.append(lease.evaluation_id)
    return done


def accept_until_full(store, name):
    made = []
    for _ in range(10):
        try:
            made.append(accept(store, tenant=name, max_queued=37).evaluation.id)
        except QueueFullError:
            made.append("full")
    return made


def accept_within_quota(store, quota):
    made = []
    for _ in range(10):
        try:
            made.append(accept(store, tenant="t", quota=quota).evaluation.id)
        except QuotaExceededError as error:
            made.append(error.which)
    return made


def accept_a_few_a_minute(store, name):
    return accept_within_quota(store, Quota(per_minute=23))


def accept_a_few_at_once(store, name):
    return accept_within_quota(store, Quota(concurrent=23))


def accept_the_same(store, name):
    return [accept(store, SUBMISSION, idempotency_key="k", reuse_key="r").evaluation.id for _ in range(3)]


def drop_and_finish(store, name):
    """Each tries to end every evaluation there is; the ids that it ended itself."""
    items = store.list(None, limit=100).items
    mine = []
    for item in items:
        lease = store.claim_one(item.id, ["compile"], name, 30)
        if lease and store.finish(lease, ended(message=name), {}):
            mine.append(item.id)
        store.drop(item.id, None)
        store.announced([item.id])
    return mine


def sweep(store, name):
    """Six sweeps of a store whose steady clock runs very fast."""
    steps = iter(range(0, 1000, 10))
    fast = Store(str(store._url.render_as_string(hide_password=False)), steady_clock=lambda: float(next(steps)))
    requeued = []
    for _ in range(6):
        requeued += [evaluation_id for evaluation_id, _ in fast.sweep().requeued]
    return requeued
