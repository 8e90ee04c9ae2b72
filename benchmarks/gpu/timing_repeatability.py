"""How well a GPU timing repeats: fresh evaluations of six kernels, on an idle machine and beside nvcc on every core.

    python benchmarks/gpu/timing_repeatability.py [--rounds 20] [--seconds 240]

The speedup is measured to 0.4 %, as somebody asks for who compares kernels that are nearly as fast. Nothing is
pooled: each evaluation has a CUDA context, inputs and samples of its own. The grand median of a kernel is that of all
samples of all its evaluations under the same conditions. What was measured when the time is up is saved.
"""

import argparse
import contextlib
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks._support.graders import Graders, Task, gpu_versions
from benchmarks._support.record import save
from common.contract import Settings, Timing
from evaluator.problems.catalogue import find_problem
from evaluator.stages.compile.toolchain import find_toolchain

GOALS = {
    "idle_worst_latency_cv": ("<=", 0.003),
    "idle_worst_speedup_cv": ("<=", 0.003),
    "idle_coverage": (">=", 0.9),
    "busy_worst_latency_cv": ("<=", 0.01),
    "busy_worst_speedup_cv": ("<=", 0.01),
    "busy_coverage": (">=", 0.9),
    "failed": ("<=", 0.0),
}
_PRECISION = 0.004
SHORT_US = 20.0
"""Below this the clock's steps show; such a kernel is reported and has no goal."""


def tasks() -> list[Task]:
    """Six kernels: one short, one long, four between."""

    def task(name: str, problem: str, naive: bool = False, sizes: dict[str, int] | None = None) -> Task:
        kernel = find_problem(problem).naive if naive else find_problem(problem).fast
        settings = Settings(rehearse=False, sizes=sizes, timing_precision=_PRECISION)
        return Task(name, problem, kernel.source, settings, alone=True)

    return [
        task("short_vector_add", "vector_add", sizes={"n": 1 << 18}),
        task("relu", "relu"),
        task("transpose", "transpose"),
        task("softmax", "softmax"),
        task("layer_norm", "layer_norm"),
        task("long_matmul", "matmul", naive=True),
    ]


def repeatability(timings: Sequence[Timing]) -> dict[str, float]:
    """Spread of the medians of several evaluations of one kernel, and how often their intervals hold the truth.

    `latency_cv` and `speedup_cv`: standard deviation over mean. `coverage`: the share of confidence intervals that
    hold the ratio of the grand medians. Needs two evaluations.
    """
    latencies, speedups = [t.latency_us for t in timings], [t.speedup for t in timings]
    latency_us = statistics.median(sample for t in timings for sample in t.samples_us)
    baseline_us = statistics.median(sample for t in timings for sample in t.baseline_samples_us)
    grand = baseline_us / latency_us
    return {
        "latency_us": latency_us,
        "speedup": grand,
        "latency_cv": statistics.stdev(latencies) / statistics.mean(latencies),
        "speedup_cv": statistics.stdev(speedups) / statistics.mean(speedups),
        "coverage": sum(t.speedup_low <= grand <= t.speedup_high for t in timings) / len(timings),
        "half_width": statistics.median((t.speedup_high - t.speedup_low) / 2 / t.speedup for t in timings),
        "launches": statistics.median(t.launches for t in timings),
    }


def figures_of(condition: str, timings: dict[str, list[Timing]]) -> dict[str, float]:
    """The figures of one condition, `idle` or `busy`: each kernel's, and the worst of those that are not short."""
    each = {name: repeatability(found) for name, found in timings.items() if len(found) >= 2}
    figures = {f"{condition}_{name}_{key}": value for name, found in each.items() for key, value in found.items()}
    long_enough = [found for found in each.values() if found["latency_us"] >= SHORT_US]
    if long_enough:
        for key in ("latency_cv", "speedup_cv"):
            figures[f"{condition}_worst_{key}"] = max(found[key] for found in long_enough)
    if each:
        evaluations = {name: len(timings[name]) for name in each}
        covered = sum(found["coverage"] * evaluations[name] for name, found in each.items())
        figures[f"{condition}_coverage"] = covered / sum(evaluations.values())
        figures[f"{condition}_evaluations"] = sum(evaluations.values())
    return figures


def shift(figures: dict[str, float]) -> dict[str, float]:
    """By how much a kernel's time changes at most when the machine is busy, as a share."""
    names = [key.removeprefix("busy_") for key in figures if key.startswith("busy_") and key.endswith("_latency_us")]
    moved = [
        abs(figures[f"busy_{name}"] / figures[f"idle_{name}"] - 1) for name in names if f"idle_{name}" in figures
    ]
    return {"worst_shift_when_busy": max(moved)} if moved else {}


@contextlib.contextmanager
def compilers(count: int) -> Iterator[None]:
    """`count` copies of nvcc at work all the time."""
    stop = threading.Event()
    nvcc = find_toolchain().nvcc

    def compile_on(folder: Path) -> None:
        source = folder / "matmul.cu"
        source.write_text(find_problem("matmul").fast.source)
        while not stop.is_set():
            command = [nvcc, "-cubin", "-std=c++17", "-O3", "-arch=sm_80", source, "-o", folder / "out.cubin"]
            subprocess.run(command, check=True, capture_output=True)

    with tempfile.TemporaryDirectory(prefix="busy-") as root:
        folders = [Path(root, str(number)) for number in range(count)]
        for folder in folders:
            folder.mkdir()
        threads = [threading.Thread(target=compile_on, args=(folder,)) for folder in folders]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()


def measure(
    graders: Graders, rounds: int, until_s: float, failed: list[str], keep: Callable[[dict[str, list[Timing]]], None]
) -> None:
    """Timings by kernel: in each round every kernel has its turn, so that a drift meets all alike. `keep` gets all of
    them after each.
    """
    found: dict[str, list[Timing]] = {task.name: [] for task in tasks()}
    every = [task for _ in range(rounds) for task in tasks()]
    for graded in graders.grade(every, until_s):
        if graded.verdict.timing is not None:
            found[graded.task.name].append(graded.verdict.timing)
        else:
            failed.append(f"{graded.task.name}: {graded.verdict.status}: {graded.verdict.message}")
            print(failed[-1][:300], flush=True)
        keep(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=240.0, help="nothing new is begun after these")
    parser.add_argument("--compilers", type=int, default=16)
    parser.add_argument(
        "--backend", choices=("gpu", "sim"), default="gpu", help="sim: try the benchmark, not the GPU"
    )
    wanted = parser.parse_args()
    until_s = time.monotonic() + wanted.seconds
    figures: dict[str, float] = {}
    failed: list[str] = []
    # Two graders, so that one compiles nothing and waits while the other's launches are timed.
    with Graders(2, wanted.backend) as graders:

        def taken(condition: str, timings: dict[str, list[Timing]]) -> None:
            figures.update(figures_of(condition, timings))
            keep(quiet=True)
            done = sum(map(len, timings.values()))
            worst = figures.get(f"{condition}_worst_latency_cv")
            if not done % len(timings):
                print(f"{condition}: {done} evaluations, worst latency_cv {worst}", flush=True)

        def keep(quiet: bool) -> None:
            all_figures = {**figures, **shift(figures), "failed": len(failed)}
            goals = {name: goal for name, goal in GOALS.items() if name in all_figures}
            details = {"rounds": wanted.rounds, "compilers": wanted.compilers, "failed": failed[:20]}
            save(
                "timing_repeatability",
                all_figures,
                goals,
                gpu_versions(),
                device=graders.device,
                details=details,
                quiet=quiet,
            )

        try:
            # Half of what is left, so that both conditions have as many rounds.
            idle_until_s = (time.monotonic() + until_s) / 2
            measure(graders, wanted.rounds, idle_until_s, failed, partial(taken, "idle"))
            with compilers(wanted.compilers):
                measure(graders, wanted.rounds, until_s, failed, partial(taken, "busy"))
        finally:
            keep(quiet=False)
            print("\n".join(failed[:10]), flush=True)


if __name__ == "__main__":
    main()
