"""Evaluations a minute on one GPU: hundreds of different kernels, cold and warm, with bad ones among them.

    python benchmarks/gpu/gpu_throughput.py [--modes single,reused,reused-coarse,reused-mixed,kernelbench] [--seconds
    240]

`single` gives each submission a CUDA context of its own, `reused` lets one serve many; each is measured with an empty
compile cache and then again with a full one. The speedup of each kernel is measured to 1 %; `-coarse` asks for 3 %,
as a trainer may, and leaves the rehearsal on the simulator out. `-mixed` has 20 % bad submissions, which are not
rehearsed, so that the GPU meets them. `kernelbench` grades eight of the kernels as KernelBench's own evaluator does.
What was measured when the time is up is saved.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks._support.graders import Graded, Graders, Task, gpu_versions
from benchmarks._support.kernel_variants import Variant, bad, honest
from benchmarks._support.record import save
from common.contract import Settings
from evaluator.problems.catalogue import find_problem

GOALS = {
    "single_cold_per_minute": (">=", 300.0),
    "single_warm_per_minute": (">=", 300.0),
    "reused_cold_per_minute": (">=", 1000.0),
    "reused_warm_per_minute": (">=", 1000.0),
    "reused_coarse_cold_per_minute": (">=", 1000.0),
    "reused_coarse_warm_per_minute": (">=", 1000.0),
    "different_kernels": (">=", 300.0),
    "wrong_verdicts": ("<=", 0.0),
}
_JOBS_PER_RUNNER = {"single": 1, "reused": 100}
_MIXED, _MIXED_BAD = 100, 20
_COARSE = 0.03
_PEERS = 8
_PEER_S = 240.0


class Run:
    """All that was measured so far."""

    def __init__(self, backend: str, until_s: float) -> None:
        self.backend, self.until_s = backend, until_s
        self.figures: dict[str, float] = {}
        self.device = ""
        self.wrong: list[str] = []
        self._ptx: set[str] = set()
        self._sizes: dict[str, Mapping[str, int]] = {}

    def take_in(self, name: str, started_s: float, graded: list[Graded], ends: Mapping[str, tuple[str, ...]]) -> None:
        """Add the figures of one pass, and save."""
        if not graded:
            return
        for one in graded:
            verdict = one.verdict
            if verdict.status.value not in ends[one.task.name]:
                self.wrong.append(f"{name}: {one.task.name} was {verdict.status}: {verdict.message}")
            if verdict.receipt and verdict.receipt.canonical_ptx_sha256:
                self._ptx.add(verdict.receipt.canonical_ptx_sha256)
            if verdict.timing:
                self._sizes[verdict.problem] = verdict.timing.sizes
        self.figures |= {f"{name}_{figure}": value for figure, value in pass_figures(started_s, graded).items()}
        self.save(quiet=True)

    def save(self, quiet: bool = False) -> bool:
        figures = dict(self.figures)
        if self._ptx:
            figures |= {"different_kernels": len(self._ptx), "wrong_verdicts": len(self.wrong)}
        ours, theirs = figures.get("single_cold_per_minute"), figures.get("kernelbench_cold_per_minute")
        if ours and theirs:
            figures["times_kernelbench_cold"] = ours / theirs
        goals = {name: goal for name, goal in GOALS.items() if name in figures}
        details = {"timing_sizes": self._sizes, "wrong": self.wrong}
        return save(
            "gpu_throughput", figures, goals, gpu_versions(), device=self.device, details=details, quiet=quiet
        )


def pass_figures(started_s: float, graded: list[Graded]) -> dict[str, float]:
    """What one pass says: how many a minute, where the graders' time went, and how busy the GPU's referee was."""
    elapsed_s = max(one.done_s for one in graded) - started_s
    took_s = sum(one.took_s for one in graded)
    phases: dict[str, float] = {}
    for one in graded:
        for phase, phase_s in (one.verdict.receipt.phases_s if one.verdict.receipt else {}).items():
            phases[phase] = phases.get(phase, 0.0) + phase_s
    named = ("compile", "rehearsal", "referee.context", "referee.verify", "referee.time")
    shares = {f"share_{name.removeprefix('referee.')}": phases.get(name, 0.0) / took_s for name in named}
    trials = sum(len(one.verdict.correctness.trials) for one in graded if one.verdict.correctness)
    launches = [one.verdict.timing.launches for one in graded if one.verdict.timing]
    return {
        "per_minute": 60 * len(graded) / elapsed_s,
        "evaluations": len(graded),
        "seconds": elapsed_s,
        "p50_s": statistics.median(one.took_s for one in graded),
        "launches_verified": trials,
        "launches_timed": sum(launches),
        "launches_p50": statistics.median(launches) if launches else 0,
        **shares,
        "share_waiting": 1 - sum(shares.values()),
        "referee_busy_share": sum(s for phase, s in phases.items() if phase.startswith("referee.")) / elapsed_s,
        "referee_s_each": sum(s for phase, s in phases.items() if phase.startswith("referee.")) / len(graded),
    }


def tasks_of(variants: Iterable[Variant], coarse: bool = False) -> list[Task]:
    settings = Settings(rehearse=False, timing_precision=_COARSE) if coarse else Settings()
    return [Task(v.name, v.problem, v.source, settings) for v in variants]


def mixed_tasks(good: list[Variant], wicked: list[Variant]) -> list[Task]:
    """The bad ones spread evenly among the good ones; they go to the GPU unrehearsed, and have 2 s there."""
    tasks = tasks_of(good)
    every = max(len(good) // max(len(wicked), 1), 1)
    for number, variant in enumerate(wicked):
        settings = Settings(rehearse=False, run_timeout_s=2)
        tasks.insert(number * (every + 1), Task(variant.name, variant.problem, variant.source, settings))
    return tasks


def measure_mode(mode: str, run: Run, graders: Graders, kernels: int, pass_s: float) -> None:
    """All passes of one mode."""
    kind, _, how = mode.partition("-")
    good = honest()[:kernels]
    if how == "mixed":
        count = min(_MIXED, kernels)
        wicked = bad(count * _MIXED_BAD // 100)
        variants = [*good[: count - len(wicked)], *wicked]
        passes = [("cold", mixed_tasks(good[: count - len(wicked)], wicked))]
    else:
        variants = good
        tasks = tasks_of(good, coarse=how == "coarse")
        passes = [("cold", tasks), ("warm", tasks)]
    ends = {variant.name: tuple(status.value for status in variant.ends) for variant in variants}
    graders.forget()
    for heat, tasks in passes:
        started_s = time.monotonic()
        graded = list(graders.grade(tasks, min(run.until_s, started_s + pass_s)))
        run.take_in("_".join(filter(None, (kind, how, heat))), started_s, graded, ends)
        if graded:
            each = run.figures["_".join(filter(None, (kind, how, heat, "per_minute")))]
            print(f"{mode} {heat}: {len(graded)} evaluations, {each:.0f} a minute", flush=True)


def measure_kernelbench(run: Run, at_once: int) -> None:
    """Eight of the kernels as KernelBench does it, `at_once` at the same time; cold, then with its build cache."""
    families: dict[str, Variant] = {}
    for variant in honest():
        families.setdefault(variant.problem, variant)
    chosen = list(families.values())[-_PEERS:]
    with tempfile.TemporaryDirectory(prefix="kernelbench-way-", ignore_cleanup_errors=True) as folder:
        for heat in ("cold", "warm"):
            left_s = run.until_s - time.monotonic()
            if left_s < 10:
                return
            started_s = time.monotonic()
            with ThreadPoolExecutor(at_once) as pool:
                took = list(pool.map(lambda v: _peer_s(v, Path(folder), left_s), chosen))  # noqa: B023
            done = [seconds for seconds in took if seconds is not None]
            if not done:
                return
            run.figures |= {
                f"kernelbench_{heat}_per_minute": 60 * len(done) / (time.monotonic() - started_s),
                f"kernelbench_{heat}_seconds_each": statistics.median(done),
                f"kernelbench_{heat}_evaluations": len(done),
                "kernelbench_at_once": at_once,
            }
            run.save(quiet=True)
            print(f"KernelBench's way, {heat}: {statistics.median(done):.1f} s each", flush=True)


def _peer_s(variant: Variant, folder: Path, time_limit_s: float) -> float | None:
    """Seconds that one evaluation takes; None where it fails."""
    task = folder / f"{variant.name}.json"
    build = folder / variant.name
    build.mkdir(exist_ok=True)
    content = {"name": variant.name, "problem": find_problem(variant.problem).id, "source": variant.source}
    task.write_text(json.dumps({**content, "build_folder": str(build)}))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        # ninja, which the build needs, lies beside Python where it was installed with pip.
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))),
    }
    command = [sys.executable, str(Path(__file__).with_name("kernelbench_way.py")), str(task)]
    started_s = time.monotonic()
    try:
        finished = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=min(_PEER_S, time_limit_s), check=False
        )
    except subprocess.TimeoutExpired:
        return None
    took_s = time.monotonic() - started_s
    if finished.returncode or not json.loads(finished.stdout.splitlines()[-1])["right"]:
        print(f"{variant.name}: {(finished.stderr or finished.stdout)[-800:]}", flush=True)
        return None
    return took_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modes", default="single,reused,reused-coarse,reused-mixed,kernelbench")
    parser.add_argument("--seconds", type=float, default=240.0, help="nothing new is begun after these")
    parser.add_argument("--pass-seconds", type=float, default=60.0, help="most of one pass")
    parser.add_argument("--kernels", type=int, default=len(honest()))
    parser.add_argument("--workers", type=int, default=min(16, os.cpu_count() or 1))
    parser.add_argument("--runners-ahead", type=int, default=3)
    parser.add_argument("--peers-at-once", type=int, default=8)
    parser.add_argument(
        "--backend", choices=("gpu", "sim"), default="gpu", help="sim: try the benchmark, not the GPU"
    )
    wanted = parser.parse_args()
    run = Run(wanted.backend, time.monotonic() + wanted.seconds)
    modes = wanted.modes.split(",")
    try:
        for kind in dict.fromkeys(mode.partition("-")[0] for mode in modes):
            if kind == "kernelbench":
                measure_kernelbench(run, wanted.peers_at_once)
                continue
            with Graders(
                wanted.workers,
                wanted.backend,
                jobs_per_runner=_JOBS_PER_RUNNER[kind],
                runners_ahead=wanted.runners_ahead,
            ) as graders:
                run.device = graders.device
                run.figures[f"{kind}_start_s"] = graders.start_s
                for mode in modes:
                    if mode.partition("-")[0] == kind and time.monotonic() < run.until_s:
                        measure_mode(mode, run, graders, wanted.kernels, wanted.pass_seconds)
    finally:
        run.save()
        print("\n".join(run.wrong[:20]), flush=True)
    raise SystemExit(1 if run.wrong else 0)


if __name__ == "__main__":
    main()
