"""768 evaluations with one client object, and whether a second key waits behind them.

    python benchmarks/service/many_at_once.py [--count 768] [--second 96] [--different 48] [--workers N]

One key asks for all of its evaluations at once, as a trainer does at each step: `--different` kernels, each of them
asked for again and again, so that most are compiled already. Some seconds later a second key asks for fewer. While
both have something waiting, each should be served half of the time, however long the first key's queue is.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks._support.kernel_variants import honest
from benchmarks._support.record import save
from benchmarks._support.served import Served, memory_peak_bytes, served
from common.client import AsyncClient
from common.contract import Settings, Status, Submission
from evaluator.service.storage.models import StoredEvaluation

GOALS = {
    "lost": ("<=", 0.0),
    "twice": ("<=", 0.0),
    "wrong": ("<=", 0.0),
    "second_key_share": (">=", 0.4),
}
_HEAD_START_S = 5.0


def submissions(count: int, different: int, first: int) -> list[Submission]:
    """`count` submissions of `different` kernels; the target, which changes no work, makes each one of its own."""
    variants = honest()[:different]
    return [
        Submission(
            problem=variants[number % len(variants)].problem,
            source=variants[number % len(variants)].source,
            backend="sim",
            settings=Settings(target_speedup=2.0 + (first + number) / 1_000_000),
        )
        for number in range(count)
    ]


def ask(url: str, key: str, count: int, different: int, first: int) -> None:
    """The caller's process: one client, all at once. Says what came of it, as numbers on one line."""
    asked = submissions(count, different, first)
    before_bytes = memory_peak_bytes()
    reported: list[int] = []

    async def all_of_them() -> list[bool]:
        async with AsyncClient(url, key) as client:
            verdicts = await client.evaluate_many(
                asked, concurrency=count, progress=lambda one: reported.append(one.index)
            )
        return [verdict.status is Status.PASSED for verdict in verdicts]

    started_s = time.monotonic()
    passed = asyncio.run(all_of_them())
    took_s = time.monotonic() - started_s
    assert sorted(reported) == list(range(count))
    print(took_s, len(passed), passed.count(False), memory_peak_bytes(), memory_peak_bytes() - before_bytes)


def share_of_second(evaluations: Sequence[StoredEvaluation], first: str, second: str) -> float:
    """The second key's share of what was begun while both keys had something waiting."""
    of = {tenant: [one for one in evaluations if one.tenant == tenant] for tenant in (first, second)}
    began = max(min(one.created_at for one in of[tenant]) for tenant in of)
    ended = min(max(one.started_at or 0.0 for one in of[tenant]) for tenant in of)
    begun = Counter(one.tenant for one in evaluations if began < (one.started_at or 0.0) <= ended)
    return begun[second] / max(1, begun[first] + begun[second])


def measure(count: int, second: int, different: int, workers: int) -> dict[str, float]:
    """All figures."""
    with served(workers, keys=("trainer", "second")) as service:
        tenants = [key.id for key in service.storage.keys.list()]
        names = {key.name: key.id for key in service.storage.keys.list()}
        assert len(tenants) == 2
        before_bytes = service.memory_peak_bytes()
        callers = [_begin(service, 0, count, different, 0)]
        time.sleep(_HEAD_START_S)
        callers.append(_begin(service, 1, second, different, count))
        (took_s, came, wrong, memory_bytes, growth_bytes), (second_s, second_came, second_wrong, *_) = [
            _end(caller) for caller in callers
        ]
        stored = service.stored()
        waits = [one.finished_at - one.created_at for one in stored if one.finished_at is not None]
        kinds = Counter(one.submission.model_dump_json() for one in stored)
        return {
            "seconds": took_s,
            "per_second": (came + second_came) / max(took_s, second_s + _HEAD_START_S),
            "evaluations": came,
            "second_key_evaluations": second_came,
            "second_key_seconds": second_s,
            "second_key_share": share_of_second(stored, names["trainer"], names["second"]),
            "lost": count + second - came - second_came,
            "twice": sum(times - 1 for times in kinds.values()),
            "wrong": wrong + second_wrong,
            "turnaround_p50_s": statistics.median(waits),
            "api_memory_peak_bytes": service.memory_peak_bytes(),
            "api_memory_before_bytes": before_bytes,
            "client_memory_peak_bytes": memory_bytes,
            "client_memory_growth_bytes": growth_bytes,
            "workers": workers,
        }


def _begin(service: Served, which: int, count: int, different: int, first: int) -> subprocess.Popen[str]:
    numbers = [str(number) for number in (count, different, first)]
    line = [sys.executable, str(Path(__file__)), "--ask", service.url, *numbers]
    environment = {**os.environ, "ASSAY_KEY": service.keys[which]}
    return subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=environment)


def _end(caller: subprocess.Popen[str]) -> list[float]:
    said, _ = caller.communicate()
    if caller.returncode:
        raise SystemExit(f"A caller failed with exit code {caller.returncode}.")
    return [float(number) for number in said.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=768)
    parser.add_argument("--second", type=int, default=96)
    parser.add_argument("--different", type=int, default=48)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--ask", nargs=4, metavar=("URL", "COUNT", "DIFFERENT", "FIRST"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.ask:
        url, *numbers = given.ask
        ask(url, os.environ["ASSAY_KEY"], *(int(number) for number in numbers))
        return
    figures = measure(given.count, given.second, given.different, given.workers)
    save("many_at_once", figures, GOALS, details={"processors": os.cpu_count(), "kernels": given.different})


if __name__ == "__main__":
    main()
