"""Evaluations a minute from outside: `assay serve` on one GPU, 64 HTTP clients, and kernels such as a policy writes.

    python benchmarks/gpu/throughput.py [--modes default,coarse,kernelbench] [--seconds 190] [--referees N]
        [--together N]

`default` is what a service does whose owner and callers set nothing: a CUDA context for each program, a speedup to
1 %, a rehearsal on the simulator. `coarse` is what a trainer may ask for: contexts that serve many programs, launches
until the *reward* is known, no rehearsal; first with programs that nobody has compiled before (`cold`), then with the
same ones again (`warm`). `kernelbench` grades eight kernels as KernelBench's published evaluator does, in the same
run. A verdict is wrong where an honest kernel does not pass or a bad one does. With `--profile` the referees are
looked at while they work, and the result says where their time goes.

What a verdict costs: seconds of processors and of GPUs, and money at rates that the options state and the result
keeps. A GPU is paid for as long as a pass takes, busy or not; a processor for what is used of it.

All that is asked for ends within `--seconds`; what is not done when a pass is over does not count.
"""

import argparse
import contextlib
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from benchmarks._support.graders import gpu_versions
from benchmarks._support.kernelbench_runs import kernelbench_figures
from benchmarks._support.policy_fleet import FleetKernel, fleet
from benchmarks._support.record import save
from benchmarks._support.referee_stacks import profile_of, read_stacks
from benchmarks._support.served import Served, served
from benchmarks._support.throughput_passes import Pass, ask, costliest, figures_of
from common.contract import Settings
from evaluator.backends.gpu.device.health import Gpu, gpus
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
_WARM_UP_SHARE: Final = 0.35
"""Most of a mode's time that goes until the first verdicts are there: its referees start with the first of them, and
the simulator's runtime is compiled, which takes a machine with a slow disk 15 s. It ends as soon as they are there.
"""
_REWARD_PRECISION: Final = 0.02
_COARSE_RUN_S: Final = 10.0
"""A program that never ends holds the GPU for a quarter of it."""
_KILL_EVERY_S: Final = 6.0
"""A referee takes four to start."""
_KERNELBENCH: Final = "kernelbench"
_GPU_USD_AN_HOUR: Final = 3.0
_CORE_USD_AN_HOUR: Final = 0.04
"""Round numbers, nobody's prices: to be set to one's own."""


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


class Run:
    """All that was measured so far."""

    def __init__(self, wanted: argparse.Namespace, until_s: float) -> None:
        """`wanted`: what the command line says."""
        self.backend, self.clients, self.workers, self.until_s = (
            wanted.backend,
            wanted.clients,
            wanted.workers,
            until_s,
        )
        self.profiled, self.gpu, self.failing = wanted.profile, wanted.gpu, wanted.failing
        self.referees, self.together = wanted.referees, wanted.together
        self.usd_an_hour = {"gpu": wanted.gpu_usd, "core": wanted.core_usd}
        self.gpus = len([name for name in wanted.gpu.split(",") if name]) or len(gpus())
        self.figures: dict[str, float] = {
            "clients": self.clients,
            "workers": self.workers,
            "cores": os.cpu_count() or 0,
            "gpus": self.gpus,
            "referees_per_gpu": self.referees,
            "trials_together": self.together,
            **{f"{what}_usd_an_hour": usd for what, usd in self.usd_an_hour.items()},
        }
        self.details: dict[str, Any] = {"wrong": [], "costliest": {}, "referee": {}}

    def take_in(self, name: str, found: Pass, stacks: Mapping[str, int]) -> None:
        """Add one pass, and save."""
        self.add(name, figures_of(name, found), self.gpus)
        self.details["wrong"] += [
            f"{name}: {one.kernel.name} was {one.status}: {one.message}" for one in found.answers if one.wrong
        ]
        self.details["costliest"][name] = costliest(found.answers)
        if stacks:
            self.details["referee"][name] = profile_of(stacks)
        self.save(quiet=True)
        told = (f"{figure} {self.figures.get(f'{name}_{figure}', 0.0):.4g}" for figure in _TOLD)
        print(f"{name}: {', '.join(told)}", flush=True)

    def add(self, name: str, figures: Mapping[str, float], gpus_held: int) -> None:
        """Figures of one pass, and what a verdict of it cost."""
        self.figures |= figures
        if count := figures.get(f"{name}_evaluations"):
            gpu_s = gpus_held * figures[f"{name}_seconds"] / count
            self.figures |= cost_of(name, figures[f"{name}_cpu_s_each"], gpu_s, self.usd_an_hour)

    def add_kernelbench(self, figures: Mapping[str, float]) -> None:
        """Figures of one pass of KernelBench's way, which has one GPU, and save."""
        self.add(next(name for name in figures if name.endswith("_per_minute"))[: -len("_per_minute")], figures, 1)
        self.save(quiet=True)

    def save(self, quiet: bool = False) -> bool:
        """Save what there is; True when every goal that was measured is met."""
        figures = dict(self.figures)
        figures["wrong_verdicts"] = len(self.details["wrong"])
        ours, theirs = figures.get("default_usd_a_thousand"), figures.get("kernelbench_cold_usd_a_thousand")
        if ours and theirs:
            figures["times_cheaper_than_kernelbench"] = theirs / ours
        goals = {name: goal for name, goal in GOALS.items() if name in figures}
        device = ", ".join(f"{gpu.name}, driver {gpu.driver_version}" for gpu in gpus())
        details = {**self.details, "modes": {name: dict(mode.settings) for name, mode in MODES.items()}}
        return save("throughput", figures, goals, gpu_versions(), device=device, details=details, quiet=quiet)


def cost_of(name: str, cpu_s: float, gpu_s: float, usd_an_hour: Mapping[str, float]) -> dict[str, float]:
    """What a verdict costs that takes so many seconds of a core and of a GPU, by figure."""
    usd = (cpu_s * usd_an_hour["core"] + gpu_s * usd_an_hour["gpu"]) / 3600
    return {f"{name}_gpu_s_each": gpu_s, f"{name}_usd_a_thousand": 1000 * usd}


_TOLD: Final = (
    "per_minute",
    "p50_s",
    "p99_s",
    "wrong",
    "referee_s_each",
    "referee_busy_share",
    "gpu_busy_share",
    "cpu_s_each",
    "usd_a_thousand",
)


def measure(run: Run, name: str, left_s: float, seed: int) -> None:
    """All passes of one mode, in about `left_s` seconds."""
    mode = MODES[name]
    ends_s = time.monotonic() + left_s
    settings = Settings(**mode.settings)
    with tempfile.TemporaryDirectory(prefix="assay-profile-", ignore_cleanup_errors=True) as folder:
        own = dict(mode.service) | ({"ASSAY_GPU": run.gpu} if run.gpu else {})
        own |= {"ASSAY_REFEREE_PROFILE": folder} if run.profiled else {}
        own |= {"ASSAY_REFEREES_PER_GPU": str(run.referees), "ASSAY_TRIALS_TOGETHER": str(run.together)}
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
                    with _killing(service, run.referees) if run.failing else contextlib.nullcontext():
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
                end_referees(service, run.referees)


@contextlib.contextmanager
def _killing(service: Served, referees: int) -> Iterator[None]:
    """Kill the first GPU's referees every few seconds, while the block runs."""
    over, first = threading.Event(), gpus()[0]

    def kill() -> None:
        while not over.wait(_KILL_EVERY_S):
            for number in range(referees):
                with contextlib.suppress(GpuError, ProcessLookupError):
                    os.kill(_pid(_referee(service, first, number)), signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _referee(service: Served, gpu: Gpu, number: int = 0) -> GpuReferee:
    return GpuReferee(gpu, MachineSettings(service.folder), number=number)


def _pid(referee: GpuReferee) -> int:
    """Raises GpuError. Waits until it has nothing else to do."""
    return int(referee.facts()["pid"])


def end_referees(service: Served, referees: int) -> None:
    """A referee outlives its service for a while; here the next service's would find its GPU taken."""
    for referee in (_referee(service, gpu, number) for gpu in gpus() for number in range(referees)):
        if (service.folder / "referees" / f"{referee.key}.sock").exists():
            with contextlib.suppress(GpuError, ProcessLookupError):
                os.kill(_pid(referee), signal.SIGTERM)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known, usual = (*MODES, _KERNELBENCH), MachineSettings(Path())
    parser.add_argument("--modes", default="default,coarse,kernelbench", help=f"some of {', '.join(known)}")
    parser.add_argument("--seconds", type=float, default=190.0, help="of all, about")
    parser.add_argument("--clients", type=int, default=_CLIENTS)
    parser.add_argument("--workers", type=int, default=min(16, os.cpu_count() or 1))
    parser.add_argument(
        "--referees", type=int, default=usual.referees_per_gpu, help="processes that judge on each GPU"
    )
    parser.add_argument(
        "--together",
        type=int,
        default=usual.trials_together,
        help="small trials that a GPU launches together at most",
    )
    parser.add_argument("--gpu-usd", type=float, default=_GPU_USD_AN_HOUR, help="what a GPU costs an hour")
    parser.add_argument("--core-usd", type=float, default=_CORE_USD_AN_HOUR, help="what a core costs an hour")
    parser.add_argument("--profile", action="store_true", help="say where the referee's time goes")
    parser.add_argument("--gpu", default="", help="the GPUs to use, as ASSAY_GPU names them; else all alike")
    parser.add_argument("--failing", action="store_true", help="kill the first GPU's referees again and again")
    parser.add_argument("--seed", type=int, default=0, help="of the fleet's order, and of its numbers")
    parser.add_argument("--backend", choices=("gpu", "sim"), default="gpu", help="sim: try the benchmark itself")
    wanted = parser.parse_args()
    until_s = time.monotonic() + wanted.seconds
    run = Run(wanted, until_s)
    modes = wanted.modes.split(",")
    unknown = sorted(set(modes) - set(known))
    if unknown:
        parser.error(f"there is no mode {', '.join(unknown)}")
    try:
        for number, name in enumerate(modes):
            # A mode of two passes has twice the time of one with a single pass.
            shares = [len(MODES[one].passes) if one in MODES else 2 for one in modes[number:]]
            left_s = (until_s - time.monotonic()) * shares[0] / sum(shares)
            if name == _KERNELBENCH:
                kernelbench_figures(time.monotonic() + left_s, run.add_kernelbench)
            else:
                measure(run, name, left_s, 2 * wanted.seed)
    finally:
        met = run.save()
        print("\n".join(run.details["wrong"][:40]), flush=True)
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
