"""Evaluations a minute from outside: `assay serve` on one GPU, 64 HTTP clients, and kernels such as a policy writes.

    python benchmarks/gpu/throughput.py [--modes default,coarse] [--seconds 190] [--profile]

`default` is what a service does whose owner and callers set nothing: a CUDA context for each program, a speedup to
1 %, a rehearsal on the simulator. `coarse` is what a trainer may ask for: contexts that serve many programs, launches
until the *reward* is known, no rehearsal; first with programs that nobody has compiled before (`cold`), then with the
same ones again (`warm`). A verdict is wrong where an honest kernel does not pass or a bad one does. With `--profile`
the GPU's referee is looked at while it works, and the result says where its time goes.

All that is asked for ends within `--seconds`; what is not done when a pass is over does not count.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from benchmarks._support.graders import gpu_versions
from benchmarks._support.policy_fleet import FleetKernel, fleet
from benchmarks._support.record import save
from benchmarks._support.served import Served, served
from common.client import AsyncClient, NoVerdictError
from common.contract import Settings, Status, Submission, Verdict
from evaluator.backends.gpu.device.health import Gpu, device_state, gpus
from evaluator.errors import GpuError
from evaluator.pipeline.gpu.client import GpuReferee
from evaluator.settings import MachineSettings

GOALS: Final = {
    "default_per_minute": (">=", 300.0),
    "coarse_warm_per_minute": (">=", 1000.0),
    "coarse_warm_referee_s_each": ("<=", 0.06),
    "wrong_verdicts": ("<=", 0.0),
}
_CLIENTS: Final = 64
_SLOW: Final = 0.2
"""A speedup of this or less is that of a kernel that PyTorch beats by five times."""
_WARM_UP_SHARE: Final = 0.12
"""Most of a mode's time that goes until the first verdicts are there: its referee starts with the first of them."""
_REWARD_PRECISION: Final = 0.02
_COARSE_RUN_S: Final = 10.0
"""A program that never ends holds the GPU for a quarter of it."""
_GPU_EVERY_S: Final = 0.2
_KILL_EVERY_S: Final = 6.0
"""A referee takes four to start."""
_SHOWN: Final = 40
"""Entries of a profile that are kept."""


@dataclass(frozen=True)
class Mode:
    """How the service is set up, and what its callers ask for."""

    service: Mapping[str, str]
    settings: Mapping[str, Any]
    passes: tuple[str, ...]
    """`cold` has programs of its own, `warm` those of the pass before; a single pass has no name."""


MODES: Final[Mapping[str, Mode]] = MappingProxyType(
    {
        "default": Mode({}, {}, ("",)),
        "coarse": Mode(
            {"ASSAY_JOBS_PER_RUNNER": "100"},
            {"reward_precision": _REWARD_PRECISION, "rehearse": False, "run_timeout_s": _COARSE_RUN_S},
            ("cold", "warm"),
        ),
        "coarse-rehearsed": Mode(
            {"ASSAY_JOBS_PER_RUNNER": "100"},
            {"reward_precision": _REWARD_PRECISION, "run_timeout_s": _COARSE_RUN_S},
            ("cold", "warm"),
        ),
    }
)


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

    @property
    def wrong(self) -> bool:
        """Whether it says what is not so, or nothing."""
        if self.status == Status.INTERNAL_ERROR:
            return True
        return (self.status == Status.PASSED) == (self.kernel.kind == "bad")

    @property
    def referee_s(self) -> float:
        return sum(s for phase, s in self.phases_s.items() if phase.startswith("referee."))

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
        spent_s.append((_machine_cpu_s(), time.process_time()))
        done.append(tuple(taken.answers))  # what comes from now on comes too late
        for task in under_way:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended
        return took_s

    with _gpu_watched() as busy:
        before_s, own_before_s = _machine_cpu_s(), time.process_time()
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


def _machine_cpu_s() -> float:
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
        }
        for one in ordered
    ]


# --- where the referee's time goes ---------------------------------------------------------------------------------


def read_stacks(folder: Path) -> Counter[str]:
    """What the referees that write to `folder` were seen at so far (`evaluator.pipeline.gpu.stack_samples`)."""
    seen: Counter[str] = Counter()
    for file in folder.glob("*.json"):
        with contextlib.suppress(OSError, ValueError):
            seen.update(json.loads(file.read_text()))
    return seen


def profile_of(stacks: Mapping[str, int]) -> dict[str, Any]:
    """Shares of the time in which the referee had a job: by phase, by function of ours, and by innermost call."""
    jobs = {stack: count for stack, count in stacks.items() if ":_attend:" in stack and not _waits_for_grader(stack)}
    total, all_seen = sum(jobs.values()), sum(stacks.values())
    if not total:
        return {}
    phases: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    leaves: Counter[str] = Counter()
    for stack, count in jobs.items():
        calls = stack.split(";")
        names = [call.rsplit(":", 1)[0] for call in calls]
        phases[_phase(names)] += count
        for name in {name for name in names if name.startswith("evaluator/")}:
            inside[name] += count
        own = next((name for name in reversed(names) if name.startswith("evaluator/")), "")
        leaves[f"{own} > {calls[-1].rpartition('/')[2]}" if own != names[-1] else calls[-1]] += count
    return {
        "samples": all_seen,
        "busy_share": total / all_seen,
        **{
            title: {name: round(count / total, 4) for name, count in counted.most_common(_SHOWN)}
            for title, counted in (("phases", phases), ("inside", inside), ("leaves", leaves))
        },
    }


def _waits_for_grader(stack: str) -> bool:
    """Whether it only waits for the next order, and so for no job."""
    calls = [call.split(":")[1] for call in stack.split(";")]
    return "receive" in calls and calls.index("receive") - calls.index("_attend") == 1


def _phase(names: Sequence[str]) -> str:
    for name, phase in (("verification.py:verify", "verify"), ("measurement.py:measure", "time")):
        if any(one.endswith(name) for one in names):
            return phase
    return "context" if any(one.endswith("session.py:open") for one in names) else "other"


# --- the command ---------------------------------------------------------------------------------------------------


class Run:
    """All that was measured so far."""

    def __init__(
        self, backend: str, clients: int, workers: int, until_s: float, profiled: bool, gpu: str, failing: bool
    ) -> None:
        self.backend, self.clients, self.workers, self.until_s = backend, clients, workers, until_s
        self.profiled, self.gpu, self.failing = profiled, gpu, failing
        self.figures: dict[str, float] = {"clients": clients, "workers": workers, "cores": os.cpu_count() or 0}
        self.details: dict[str, Any] = {"wrong": [], "costliest": {}, "referee": {}}

    def take_in(self, name: str, found: Pass, stacks: Mapping[str, int]) -> None:
        """Add one pass, and save."""
        self.figures |= figures_of(name, found)
        self.details["wrong"] += [
            f"{name}: {one.kernel.name} was {one.status}: {one.message}" for one in found.answers if one.wrong
        ]
        self.details["costliest"][name] = costliest(found.answers)
        if stacks:
            self.details["referee"][name] = profile_of(stacks)
        self.save(quiet=True)
        told = (f"{figure} {self.figures.get(f'{name}_{figure}', 0.0):.4g}" for figure in _TOLD)
        print(f"{name}: {', '.join(told)}", flush=True)

    def save(self, quiet: bool = False) -> bool:
        """Save what there is; True when every goal that was measured is met."""
        figures = dict(self.figures)
        figures["wrong_verdicts"] = len(self.details["wrong"])
        goals = {name: goal for name, goal in GOALS.items() if name in figures}
        device = ", ".join(f"{gpu.name}, driver {gpu.driver_version}" for gpu in gpus())
        details = {**self.details, "modes": {name: dict(mode.settings) for name, mode in MODES.items()}}
        return save("throughput", figures, goals, gpu_versions(), device=device, details=details, quiet=quiet)


_TOLD: Final = (
    "per_minute",
    "p50_s",
    "p99_s",
    "wrong",
    "referee_s_each",
    "referee_busy_share",
    "gpu_busy_share",
    "cpu_s_each",
)


def measure(run: Run, name: str, left_s: float, seed: int) -> None:
    """All passes of one mode, in about `left_s` seconds."""
    mode = MODES[name]
    ends_s = time.monotonic() + left_s
    settings = Settings(**mode.settings)
    with tempfile.TemporaryDirectory(prefix="assay-profile-") as folder:
        own = dict(mode.service) | ({"ASSAY_GPU": run.gpu} if run.gpu else {})
        own |= {"ASSAY_REFEREE_PROFILE": folder} if run.profiled else {}
        with served(run.workers, settings=own) as service:
            try:
                warm_up, warm_up_s = islice(fleet(seed + 1), 2 * run.workers), _WARM_UP_SHARE * left_s
                ask(service.url, warm_up, warm_up_s, backend=run.backend, settings=settings, clients=run.workers)
                again: list[FleetKernel] = []
                for number, heat in enumerate(mode.passes):
                    seconds = (ends_s - time.monotonic()) / (len(mode.passes) - number) - 2.0
                    if seconds < 3:
                        return
                    before = read_stacks(Path(folder))
                    kernels = cycle(again) if heat == "warm" else fleet(seed)
                    with _killing(service) if run.failing else contextlib.nullcontext():
                        found = ask(
                            service.url,
                            kernels,
                            seconds,
                            backend=run.backend,
                            settings=settings,
                            clients=run.clients,
                        )
                    again = [one.kernel for one in found.answers]
                    run.take_in("_".join(filter(None, (name, heat))), found, read_stacks(Path(folder)) - before)
            finally:
                end_referees(service)


@contextlib.contextmanager
def _killing(service: Served) -> Iterator[None]:
    """Kill the first GPU's referee every few seconds, while the block runs."""
    over, first = threading.Event(), gpus()[0]

    def kill() -> None:
        while not over.wait(_KILL_EVERY_S):
            with contextlib.suppress(GpuError, ProcessLookupError):
                os.kill(_referee_pid(service, first), signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _referee_pid(service: Served, gpu: Gpu) -> int:
    """Raises GpuError. Waits until it has nothing else to do."""
    return int(GpuReferee(gpu, MachineSettings(service.folder)).facts()["pid"])


def end_referees(service: Served) -> None:
    """A referee outlives its service for a while; here the next service's would find its GPU taken."""
    for gpu in gpus():
        if (service.folder / "referees" / f"{gpu.uuid}.sock").exists():
            with contextlib.suppress(GpuError, ProcessLookupError):
                os.kill(_referee_pid(service, gpu), signal.SIGTERM)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modes", default="default,coarse", help=f"some of {', '.join(MODES)}")
    parser.add_argument("--seconds", type=float, default=190.0, help="of all, about")
    parser.add_argument("--clients", type=int, default=_CLIENTS)
    parser.add_argument("--workers", type=int, default=min(16, os.cpu_count() or 1))
    parser.add_argument("--profile", action="store_true", help="say where the referee's time goes")
    parser.add_argument("--gpu", default="", help="the GPUs to use, as ASSAY_GPU names them; else all alike")
    parser.add_argument("--failing", action="store_true", help="kill the first GPU's referee again and again")
    parser.add_argument("--seed", type=int, default=0, help="of the fleet's order, and of its numbers")
    parser.add_argument("--backend", choices=("gpu", "sim"), default="gpu", help="sim: try the benchmark itself")
    wanted = parser.parse_args()
    until_s = time.monotonic() + wanted.seconds
    run = Run(wanted.backend, wanted.clients, wanted.workers, until_s, wanted.profile, wanted.gpu, wanted.failing)
    modes = wanted.modes.split(",")
    unknown = sorted(set(modes) - set(MODES))
    if unknown:
        parser.error(f"there is no mode {', '.join(unknown)}")
    try:
        for number, name in enumerate(modes):
            # A mode of two passes has twice the time of one with a single pass.
            shares = [len(MODES[one].passes) for one in modes[number:]]
            measure(run, name, (until_s - time.monotonic()) * shares[0] / sum(shares), 2 * wanted.seed)
    finally:
        met = run.save()
        print("\n".join(run.details["wrong"][:40]), flush=True)
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
