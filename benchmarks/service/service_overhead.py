"""What the service adds: 64 clients, one cached kernel, the simulator.

    python benchmarks/service/service_overhead.py [--workers N] [--each 8]

Overhead is what a caller waits for besides the grading itself and a worker that is busy with others: from sending the
request to its row in the store, from the moment at which the worker that takes it is free to its start, what the
worker does around the grading (the receipt says how long that took), and from the verdict's row to the caller. A
repeat that the store answers is measured apart. The same work is called directly in as many processes, before and
after, so that the ratio is of one run on one machine.
"""

import argparse
import asyncio
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks._support.graders import Graders, Task
from benchmarks._support.record import save
from benchmarks._support.served import served
from common.client import AsyncClient
from common.contract import Settings, Status, Submission
from evaluator.service.storage.models import StoredEvaluation

_CLIENTS = 64
_REPEATS = 200
_DIRECT = 150
_RAMP_S = 3.0
_SOURCE = """__global__ void add_kernel(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""
GOALS = {"overhead_p50_s": ("<=", 0.050), "overhead_p99_s": ("<=", 0.200), "repeat_p50_s": ("<=", 0.010)}


def submission(number: int) -> Submission:
    """One of many that all are the same work; the target makes each one that the store has not seen yet."""
    settings = Settings(target_speedup=2.0 + number / 1_000_000)
    return Submission(problem="vector_add", source=_SOURCE, backend="sim", settings=settings)


@dataclass(frozen=True)
class Parts:
    """Where one evaluation's time went beside the grading and a busy worker, seconds."""

    accept_s: float
    dispatch_s: float
    worker_s: float
    answer_s: float

    @property
    def total_s(self) -> float:
        return self.accept_s + self.dispatch_s + self.worker_s + self.answer_s


def parts_of(sent_at: float, got_at: float, free_at: float, stored: StoredEvaluation) -> Parts:
    """`free_at`: when the worker was done with the evaluation before this one; times of day, seconds."""
    assert stored.verdict is not None
    assert stored.verdict.receipt is not None
    assert stored.started_at is not None
    assert stored.finished_at is not None
    return Parts(
        accept_s=stored.created_at - sent_at,
        dispatch_s=stored.started_at - max(stored.created_at, free_at),
        worker_s=stored.finished_at - stored.started_at - stored.verdict.receipt.duration_s,
        answer_s=got_at - stored.finished_at,
    )


def free_at(evaluations: Sequence[StoredEvaluation]) -> dict[str, float]:
    """For each evaluation when its worker became free for it; 0 for the first of a worker."""
    of_worker: dict[str | None, list[StoredEvaluation]] = defaultdict(list)
    for one in sorted(evaluations, key=lambda one: one.started_at or 0.0):
        of_worker[one.worker].append(one)
    found = {}
    for row in of_worker.values():
        found |= {one.id: before.finished_at or 0.0 for before, one in pairwise(row)}
        found[row[0].id] = 0.0
    return found


async def _ask(url: str, each: int) -> dict[str, tuple[float, float]]:
    """When each submission was sent, and when its verdict was there."""
    times: dict[str, tuple[float, float]] = {}

    async def caller(first: int) -> None:
        # As callers come: not all in the same millisecond. `many_at_once.py` has that.
        await asyncio.sleep(_RAMP_S * first / (each * _CLIENTS))
        async with AsyncClient(url) as client:
            for number in range(first, first + each):
                asked = submission(number)
                sent_at = time.time()
                verdict = await client.evaluate(asked)
                times[asked.model_dump_json()] = sent_at, time.time()
                assert verdict.status is Status.PASSED, verdict.message

    await asyncio.gather(*(caller(1 + each * one) for one in range(_CLIENTS)))
    return times


async def _repeat(url: str) -> list[float]:
    """How long a caller waits for a verdict that the store has."""
    took: list[float] = []
    async with AsyncClient(url) as client:
        await client.evaluate(submission(0))
        for _ in range(_REPEATS):
            started_s = time.perf_counter()
            await client.evaluate(submission(0))
            took.append(time.perf_counter() - started_s)
    return took


def _directly(graders: Graders) -> float:
    """Evaluations a second where nothing stands between the caller and the grader."""
    tasks = [Task("direct", "vector_add", _SOURCE) for _ in range(_DIRECT)]
    started_s = time.monotonic()
    graded = list(graders.grade(tasks, started_s + 600))
    assert all(one.verdict.status is Status.PASSED for one in graded)
    return len(graded) / (max(one.done_s for one in graded) - started_s)


def figures_of(times: Mapping[str, tuple[float, float]], evaluations: Sequence[StoredEvaluation]) -> dict[str, float]:
    """Percentiles of the overhead and of its parts. `times` is by the submission's JSON."""
    free = free_at(evaluations)
    asked = [(times[key], one) for one in evaluations if (key := one.submission.model_dump_json()) in times]
    assert len(asked) == len(times)
    parts = [parts_of(sent_at, got_at, free[one.id], one) for (sent_at, got_at), one in asked]
    figures = {
        "overhead_p50_s": statistics.median(part.total_s for part in parts),
        "overhead_p90_s": statistics.quantiles((part.total_s for part in parts), n=10)[-1],
        "overhead_p99_s": statistics.quantiles((part.total_s for part in parts), n=100)[-1],
    }
    for name in ("accept_s", "dispatch_s", "worker_s", "answer_s"):
        figures[f"{name.removesuffix('_s')}_p50_s"] = statistics.median(getattr(part, name) for part in parts)
    receipts = [one.verdict.receipt for _, one in asked if one.verdict is not None]
    figures["grading_p50_s"] = statistics.median(receipt.duration_s for receipt in receipts if receipt is not None)
    figures["turnaround_p50_s"] = statistics.median(got_at - sent_at for (sent_at, got_at), _ in asked)
    return figures


def measure(workers: int, each: int) -> dict[str, float]:
    """All figures, with this many worker processes and `each` evaluations for each of the 64 clients."""
    with Graders(workers, "sim") as graders:
        before = _directly(graders)
        with served(workers) as service:
            repeats = asyncio.run(_repeat(service.url))
            started_s = time.monotonic()
            times = asyncio.run(_ask(service.url, each))
            per_second = len(times) / (time.monotonic() - started_s)
            figures = figures_of(times, service.stored())
            memory_bytes = service.memory_peak_bytes()
        after = _directly(graders)
    directly = statistics.harmonic_mean((before, after))
    return {
        **figures,
        "repeat_p50_s": statistics.median(repeats),
        "repeat_p90_s": statistics.quantiles(repeats, n=10)[-1],
        "per_second": per_second,
        "directly_before_per_second": before,
        "directly_after_per_second": after,
        "share_of_direct": per_second / directly,
        "api_memory_peak_bytes": memory_bytes,
        "evaluations": len(times),
        "clients": _CLIENTS,
        "workers": workers,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 1) - 1))
    parser.add_argument("--each", type=int, default=8, help="evaluations for each of the 64 clients")
    given = parser.parse_args()
    figures = measure(given.workers, given.each)
    save("service_overhead", figures, GOALS, details={"processors": os.cpu_count(), "problem": "vector_add"})


if __name__ == "__main__":
    main()
