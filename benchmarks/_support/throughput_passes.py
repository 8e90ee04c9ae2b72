"""What clients of a service get in a stretch of time, and what that says about it."""

import asyncio
import contextlib
import os
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks._support.policy_fleet import FleetKernel
from common.client import AsyncClient, NoVerdictError
from common.contract import Settings, Status, Submission, Timing, Verdict
from evaluator.backends.gpu.device.health import device_state, gpus
from evaluator.errors import GpuError

_SLOW: Final = 0.2
"""A speedup of this or less is that of a kernel that PyTorch beats by five times."""
_GPU_EVERY_S: Final = 0.2


@dataclass(frozen=True)
class Answered:
    """One verdict, as its caller had it."""

    kernel: FleetKernel
    status: str
    message: str
    took_s: float
    phases_s: Mapping[str, float] = field(default_factory=dict)
    speedup: float | None = None
    launches: int | None = None
    trials: int = 0
    times: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """How its times and its baseline's lie, µs: why it took so many launches."""

    @property
    def wrong(self) -> bool:
        """Whether it says what is not so, or nothing."""
        if self.status == Status.INTERNAL_ERROR:
            return True
        return (self.status == Status.PASSED) == (self.kernel.kind == "bad")

    @property
    def referee_s(self) -> float:
        """What its referee spent on it, without waiting for the other referees of the GPU."""
        own = (s for phase, s in self.phases_s.items() if phase.startswith("referee.") and phase != "referee.turn")
        return sum(own)

    @staticmethod
    def of(kernel: FleetKernel, verdict: Verdict, took_s: float) -> "Answered":
        receipt, timing, correctness = verdict.receipt, verdict.timing, verdict.correctness
        return Answered(
            kernel,
            verdict.status.value,
            verdict.message,
            took_s,
            dict(receipt.phases_s) if receipt else {},
            timing.speedup if timing else None,
            timing.launches if timing else None,
            len(correctness.trials) if correctness else 0,
            _spreads(timing) if timing else {},
        )


@dataclass(frozen=True)
class Pass:
    """What came back in a stretch of time."""

    answers: tuple[Answered, ...]
    seconds: float
    gpu_busy_share: float | None
    cpu_s: float
    """Of all processors, without those of the clients."""
    client_cpu_s: float


class _Fleet:
    """What the clients take from: one list for all of them."""

    def __init__(self, kernels: Iterable[FleetKernel]) -> None:
        self._kernels = iter(kernels)
        self.answers: list[Answered] = []

    async def client(self, url: str, backend: str, settings: Settings) -> None:
        """One after another, until it is cancelled or there is nothing more."""
        async with AsyncClient(url) as client:
            for kernel in self._kernels:
                own = settings.model_copy(update={"flags": kernel.flags})
                asked = Submission(problem=kernel.problem, source=kernel.source, backend=backend, settings=own)
                started_s = time.monotonic()
                try:
                    verdict = await client.evaluate(asked, fresh=True)
                except NoVerdictError as error:
                    said = getattr(error, "verdict", None)
                    message = said.message if said is not None else f"{type(error).__name__}: {error}"
                    took_s = time.monotonic() - started_s
                    self.answers.append(Answered(kernel, Status.INTERNAL_ERROR.value, message, took_s))
                    continue
                self.answers.append(Answered.of(kernel, verdict, time.monotonic() - started_s))


def ask(
    url: str, kernels: Iterable[FleetKernel], seconds: float, *, backend: str, settings: Settings, clients: int
) -> Pass:
    """Let clients ask for `seconds`, or until all is answered."""
    taken = _Fleet(kernels)

    done: list[tuple[Answered, ...]] = []
    spent_s: list[tuple[float, float]] = []

    async def all_of_them() -> float:
        began_s = time.monotonic()
        tasks = [asyncio.create_task(taken.client(url, backend, settings)) for _ in range(clients)]
        _, under_way = await asyncio.wait(tasks, timeout=seconds)
        took_s = time.monotonic() - began_s
        spent_s.append((machine_cpu_s(), time.process_time()))
        done.append(tuple(taken.answers))  # what comes from now on comes too late
        for task in under_way:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended
        return took_s

    with _gpu_watched() as busy:
        before_s, own_before_s = machine_cpu_s(), time.process_time()
        took_s = asyncio.run(all_of_them())
    after_s, own_after_s = spent_s[0]
    own_s = own_after_s - own_before_s
    share = statistics.mean(busy) / 100 if busy else None
    return Pass(done[0], took_s, share, after_s - before_s - own_s, own_s)


@contextlib.contextmanager
def _gpu_watched() -> Iterator[list[int]]:
    """How much of the time a kernel ran, by the driver, percent."""
    found = gpus()
    over, seen = threading.Event(), list[int]()

    def watch() -> None:
        while not over.wait(_GPU_EVERY_S):
            with contextlib.suppress(GpuError):
                percent = device_state(found[0].uuid).utilisation_percent
                if percent is not None:
                    seen.append(percent)

    thread = threading.Thread(target=watch, daemon=True)
    if found:
        thread.start()
    try:
        yield seen
    finally:
        over.set()


def machine_cpu_s() -> float:
    """Processor time of this container, else of this machine, so far."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/sys/fs/cgroup/cpu.stat").read_text().splitlines():
            if line.startswith("usage_usec "):
                return int(line.split()[1]) / 1e6
    with contextlib.suppress(OSError, ValueError):
        return int(Path("/sys/fs/cgroup/cpuacct/cpuacct.usage").read_text()) / 1e9
    user, nice, system, *_ = map(int, Path("/proc/stat").read_text().split()[1:5])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def figures_of(name: str, found: Pass) -> dict[str, float]:
    """What one pass says, each figure under the name of the pass."""
    answers, count = found.answers, len(found.answers)
    if not count:
        return {f"{name}_evaluations": 0.0}
    took_s = [one.took_s for one in answers]
    speedups = [one.speedup for one in answers if one.speedup is not None]
    launches = [one.launches for one in answers if one.launches is not None]
    figures: dict[str, float] = {
        "per_minute": 60 * count / found.seconds,
        "evaluations": count,
        "seconds": found.seconds,
        "p50_s": statistics.median(took_s),
        "p99_s": statistics.quantiles(took_s, n=100)[-1] if count > 1 else took_s[0],
        "cpu_s_each": found.cpu_s / count,
        "client_cpu_s_each": found.client_cpu_s / count,
        "bad_share": sum(one.kernel.kind == "bad" for one in answers) / count,
        "slow_share": sum(speedup <= _SLOW for speedup in speedups) / count,
        "launches_timed_p50": statistics.median(launches) if launches else 0,
        "trials_each": sum(one.trials for one in answers) / count,
        "referee_s_each": sum(one.referee_s for one in answers) / count,
        "referee_busy_share": sum(one.referee_s for one in answers) / found.seconds,
        "wrong": sum(one.wrong for one in answers),
    }
    if found.gpu_busy_share is not None:
        figures["gpu_busy_share"] = found.gpu_busy_share
    phases: Counter[str] = Counter()
    for one in answers:
        phases.update(one.phases_s)
    figures |= {f"{phase.replace('.', '_')}_s_each": s / count for phase, s in phases.items()}
    for kind in ("slow", "usual", "bad"):
        own = [one.referee_s for one in answers if one.kernel.kind == kind]
        if own:
            figures[f"{kind}_referee_s_each"] = statistics.mean(own)
    return {f"{name}_{figure}": float(value) for figure, value in figures.items()}


def costliest(answers: Sequence[Answered], most: int = 20) -> list[dict[str, Any]]:
    """The kernels that held the referee longest, with what it did."""
    ordered = sorted(answers, key=lambda one: -one.referee_s)[:most]
    return [
        {
            "name": one.kernel.name,
            "status": one.status,
            "referee_s": one.referee_s,
            "speedup": one.speedup,
            "launches": one.launches,
            "phases_s": dict(one.phases_s),
            **one.times,
        }
        for one in ordered
    ]


def _spreads(timing: Timing) -> dict[str, dict[str, float]]:
    return {"times_us": _spread(timing.samples_us), "baseline_times_us": _spread(timing.baseline_samples_us)}


def _spread(samples: Sequence[float]) -> dict[str, float]:
    ordered = sorted(samples)
    return {f"p{share}": ordered[min(share * len(ordered) // 100, len(ordered) - 1)] for share in (10, 50, 90)}
