"""How long a stranger waits while a neighbour does the worst that its quota allows.

    python benchmarks/service/fairness.py [--asked 20] [--neighbours bombs,slow,flood,batch] [--livez-s 60]

The stranger asks for one evaluation after another, each of a source that nobody has compiled, and waits for each. It
does so alone, and beside a neighbour with a key of its own who keeps its whole quota busy: with sources that take the
compiler all its time, with kernels that take the simulator all its time, with a flood of short evaluations, or with
batches. Beside the first of them, how long `/livez` takes others is measured too, and what this machine needs for
nothing at all at the same time: a process that wakes up.
"""

import argparse
import asyncio
import contextlib
import http.client
import itertools
import os
import statistics
import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from benchmarks._support.record import save
from benchmarks._support.served import Served, served
from common.client import AsyncClient, Client, EvaluatorError
from common.contract import Settings, Status, Submission

QUOTA = 8
"""Evaluations that the neighbour has open at one time: enough to hold every worker and to have as many waiting."""
GOALS = {f"{kind}_p99_ratio": ("<=", 3.0) for kind in ("bombs", "slow", "flood", "batch")} | {
    "livez_p99_s": ("<=", 0.2)
}

_HEAD = "__global__ void relu(const float* x, float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; "
_RELU = _HEAD + "if (i < n) y[i] = x[i] > 0.0f ? x[i] : 0.0f; }\n"
_TEMPLATES = (
    "template <int D, int P> struct B { static constexpr int v = B<D - 1, 2 * P>::v + B<D - 1, 2 * P + 1>::v; };\n"
    "template <int P> struct B<0, P> { static constexpr int v = P; };\n"
    + _HEAD
    + "if (i < n) y[i] = x[i] + B<26, 1>::v; }\n"
)
_CONSTANTS = (
    "constexpr unsigned long long spin(unsigned long long n) { unsigned long long s = 0;\n"
    "for (unsigned long long i = 0; i < n; ++i) s = s * 31 + i; return s; }\n"
    "constexpr unsigned long long spun = spin(1ull << 60);\n" + _HEAD + "if (i < n) y[i] = x[i] + spun; }\n"
)
_MACROS = (
    "#define D0 +1.0f\n"
    + "".join(f"#define D{level} D{level - 1} D{level - 1}\n" for level in range(1, 28))
    + _HEAD
    + "if (i < n) y[i] = x[i] + (0.0f D27); }\n"
)
_SLOW = _HEAD + (
    "float v = n; for (int k = 0; i == 0 && k < 4000000; k++) "
    'asm volatile("tanh.approx.f32 %0, %0;" : "+f"(v)); if (i < n) y[i] = x[i] > 0.0f ? x[i] : 0.0f; }\n'
)
_KINDS = {
    "bombs": (_TEMPLATES, _CONSTANTS, _MACROS),
    "slow": (_SLOW,),
    "flood": (_RELU,),
    "batch": (_RELU,),
}
_numbers = itertools.count()


def submission(source: str) -> Submission:
    """Of a source that is like no other."""
    return Submission(
        problem="relu",
        source=f"// {next(_numbers)} {os.getpid()}\n{source}",
        backend="sim",
        settings=Settings(verification="quick"),
    )


class Neighbour:
    """Keeps its quota busy until told to stop; what it had open is dropped."""

    def __init__(self, service: Served, key: str, kind: str) -> None:
        self._service, self._key, self._sources = service, key, itertools.cycle(_KINDS[kind])
        self._batch = kind == "batch"
        self._over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._bother()), daemon=True)

    def __enter__(self) -> "Neighbour":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        with Client(self._service.url, self._key) as client:
            for one in self._service.stored():
                if one.state != "done":
                    client.drop(one.id)

    async def _bother(self) -> None:
        async with AsyncClient(self._service.url, self._key) as client:
            at_once = 1 if self._batch else QUOTA
            tasks = [asyncio.create_task(self._ask(client)) for _ in range(at_once)]
            while not self._over.is_set():
                await asyncio.sleep(0.1)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, client: AsyncClient) -> None:
        while True:
            asked = [submission(next(self._sources)) for _ in range(QUOTA if self._batch else 1)]
            with contextlib.suppress(EvaluatorError):  # a fault of ours: it goes on
                await client.evaluate_many(asked, concurrency=QUOTA)


def stranger(service: Served, key: str, count: int, pause_s: float = 0.3) -> list[float]:
    """Seconds from asking to the verdict, of `count` evaluations one after another."""
    took_s = []
    with Client(service.url, key) as client:
        for _ in range(count):
            began_s = time.monotonic()
            verdict = client.evaluate(submission(_RELU))
            took_s.append(time.monotonic() - began_s)
            if verdict.status is not Status.PASSED:
                raise SystemExit(f"The stranger's kernel is right, and ended as {verdict.status}: {verdict.message}")
            time.sleep(pause_s)
    return took_s


def livez(service: Served, for_s: float) -> tuple[list[float], list[float]]:
    """Seconds that `/livez` took, and that a sleep of 10 ms took beyond that, each asked for so long."""
    answers_s, wakes_s = [], []
    until_s = time.monotonic() + for_s
    where = urlsplit(service.url)
    while time.monotonic() < until_s:
        began_s = time.monotonic()
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
        connection.request("GET", "/livez")
        connection.getresponse().read()
        connection.close()
        answers_s.append(time.monotonic() - began_s)
        began_s = time.monotonic()
        time.sleep(0.01)
        wakes_s.append(time.monotonic() - began_s - 0.01)
        time.sleep(0.05)
    return answers_s, wakes_s


def _p99(seconds: list[float]) -> float:
    """The 99th percentile; of fewer than a hundred, the largest."""
    return sorted(seconds)[max(0, -(-99 * len(seconds) // 100) - 1)]


def measure(
    asked: int, kinds: list[str], livez_s: float, workers: int, tell: Callable[[dict[str, float]], None]
) -> None:
    """Tells all figures so far after each part."""
    figures: dict[str, float] = {"workers": workers, "asked": asked}
    with served(workers, keys=("stranger", "neighbour")) as service:
        mine, theirs = service.keys
        stranger(service, mine, 3)
        alone_s = stranger(service, mine, asked)
        figures |= {"alone_p50_s": statistics.median(alone_s), "alone_p99_s": _p99(alone_s)}
        tell(figures)
        for kind in kinds:
            with Neighbour(service, theirs, kind):
                time.sleep(5)
                took_s = stranger(service, mine, asked)
                if kind == kinds[0] and livez_s:
                    answers_s, wakes_s = livez(service, livez_s)
                    figures |= {"livez_p50_s": statistics.median(answers_s), "livez_p99_s": _p99(answers_s)}
                    figures |= {"livez_max_s": max(answers_s), "wake_up_p99_s": _p99(wakes_s)}
            figures |= {
                f"{kind}_p50_s": statistics.median(took_s),
                f"{kind}_p99_s": _p99(took_s),
                f"{kind}_p99_ratio": _p99(took_s) / _p99(alone_s),
            }
            tell(figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--asked", type=int, default=20)
    parser.add_argument("--neighbours", default=",".join(_KINDS))
    parser.add_argument("--livez-s", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--beside", default="nothing", help="what else the machine did meanwhile, for the record")
    given = parser.parse_args()
    details = {"processors": os.cpu_count(), "neighbours_quota": QUOTA, "beside": given.beside}

    def keep(figures: dict[str, float]) -> None:
        save("fairness", figures, {name: goal for name, goal in GOALS.items() if name in figures}, details=details)

    measure(given.asked, given.neighbours.split(","), given.livez_s, given.workers, keep)


if __name__ == "__main__":
    main()
