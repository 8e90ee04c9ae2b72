"""Our own naive and fast kernels of every problem against PyTorch's eager operators, on a GPU: table, JSON, picture.

    python benchmarks/gpu/example_kernels_speed.py [--seconds 170]

The picture is `results/example_kernels_speed.svg`. What was measured when the time is up is saved.
"""

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from rich.console import Console
from rich.table import Table

from benchmarks._support import record
from benchmarks._support.graders import Graders, Task, gpu_versions
from common.contract import Settings, Timing
from evaluator.problems.catalogue import problems

_NAME = "example_kernels_speed"
_LEFT, _WIDTH, _TOP, _ROW = 150, 560, 64, 26


def tasks() -> list[Task]:
    """Both kernels of every problem, by the name `PROBLEM/naive` or `PROBLEM/fast`."""
    settings = Settings(rehearse=False)
    return [
        Task(f"{problem.id}/{way}", problem.id, kernel.source, settings, alone=True)
        for problem in problems().values()
        for way, kernel in (("naive", problem.naive), ("fast", problem.fast))
    ]


def figures_of(timings: Mapping[str, Timing]) -> dict[str, float]:
    """Latency, speedup with its interval and the share of the speed of light, for each kernel that was timed."""
    figures: dict[str, float] = {}
    for name, timing in timings.items():
        label = name.replace("/", "_")
        figures |= {
            f"{label}_latency_us": timing.latency_us,
            f"{label}_speedup": timing.speedup,
            f"{label}_speedup_low": timing.speedup_low,
            f"{label}_speedup_high": timing.speedup_high,
        }
        if timing.sol_share is not None:
            figures[f"{label}_sol_share"] = timing.sol_share
    fast = [timing.speedup for name, timing in timings.items() if name.endswith("/fast")]
    if fast:
        figures["fast_geometric_mean_speedup"] = math.exp(sum(math.log(one) for one in fast) / len(fast))
        figures["fast_at_least_pytorch"] = sum(one >= 1 for one in fast)
    figures["timed"] = len(timings)
    return figures


def table_of(timings: Mapping[str, Timing]) -> Table:
    table = Table("problem", title="Times in us; speedup over PyTorch eager, 95 % interval, share of speed of light")
    for heading in ("PyTorch", "naive", "speedup", "fast", "speedup", "interval", "share"):
        table.add_column(heading, justify="right")
    for problem in problems():
        naive, fast = timings.get(f"{problem}/naive"), timings.get(f"{problem}/fast")
        known = fast or naive
        if known is None:
            continue
        cells = [problem, f"{known.baseline_us:.1f}"]
        cells += [f"{naive.latency_us:.1f}", f"{naive.speedup:.3f}"] if naive else ["", ""]
        if fast:
            share = "" if fast.sol_share is None else f"{fast.sol_share:.0%}"
            interval = f"{fast.speedup_low:.3f} to {fast.speedup_high:.3f}"
            cells += [f"{fast.latency_us:.1f}", f"{fast.speedup:.3f}", interval, share]
        table.add_row(*cells)
    return table


@dataclass(frozen=True)
class _Row:
    """One problem in the picture: places across and down, in the units of the SVG."""

    problem: str
    y: float
    naive_x: float | None
    fast_x: float | None
    said: str


@dataclass(frozen=True)
class _Tick:
    x: float
    label: str


def picture(timings: Mapping[str, Timing], device: str) -> str:
    """An SVG with the speedups of each problem's two kernels on a logarithmic scale, for light and dark pages.

    Empty text where nothing was timed.
    """
    if not timings:
        return ""
    low = min(0.5, *(timing.speedup for timing in timings.values()))
    high = max(2.0, *(timing.speedup for timing in timings.values()))
    first, last = math.log2(low) - 0.1, math.log2(high) + 0.1

    def across(speedup: float) -> float:
        return _LEFT + _WIDTH * (math.log2(speedup) - first) / (last - first)

    known = [problem for problem in problems() if f"{problem}/naive" in timings or f"{problem}/fast" in timings]
    rows = []
    for number, problem in enumerate(known):
        naive, fast = timings.get(f"{problem}/naive"), timings.get(f"{problem}/fast")
        said = ", ".join(
            f"{way} {timing.speedup:.3g}×" for way, timing in (("naive", naive), ("fast", fast)) if timing
        )
        x = [across(timing.speedup) if timing else None for timing in (naive, fast)]
        rows.append(_Row(problem, _TOP + _ROW * (number + 0.5), x[0], x[1], said))
    step = 1 if last - first < 7 else 2
    exponents = range(math.ceil(first), math.floor(last) + 1)
    ticks = [_Tick(across(2.0**e), f"{2**e}×" if e >= 0 else f"1/{2**-e}") for e in exponents if e % step == 0]
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(f"{_NAME}.svg.j2").render(
        rows=rows,
        ticks=ticks,
        one_x=across(1.0),
        bottom=_TOP + _ROW * len(rows),
        top=_TOP,
        device=device,
        compared=next(iter(timings.values())).compared_with.partition(":")[0],
    )


def keep(timings: Mapping[str, Timing], device: str, failed: Sequence[str], quiet: bool = False) -> None:
    """Save the figures and the picture."""
    details = {
        "timing_sizes": {name: dict(timing.sizes) for name, timing in timings.items()},
        "compared_with": {name: timing.compared_with for name, timing in timings.items()},
        "failed": list(failed),
    }
    goals = {"timed": (">=", 2.0 * len(problems()))}
    record.save(_NAME, figures_of(timings), goals, gpu_versions(), device=device, details=details, quiet=quiet)
    drawn = picture(timings, device)
    if drawn:
        (record.RESULTS / f"{_NAME}.svg").write_text(drawn, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=170.0, help="nothing new is begun after these")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument(
        "--backend", choices=("gpu", "sim"), default="gpu", help="sim: try the benchmark, not the GPU"
    )
    wanted = parser.parse_args()
    until_s = time.monotonic() + wanted.seconds
    timings: dict[str, Timing] = {}
    failed: list[str] = []
    with Graders(wanted.workers, wanted.backend) as graders:
        try:
            for graded in graders.grade(tasks(), until_s):
                if graded.verdict.timing is not None:
                    timings[graded.task.name] = graded.verdict.timing
                else:
                    failed.append(f"{graded.task.name}: {graded.verdict.status}: {graded.verdict.message}")
                    print(failed[-1][:300], flush=True)
                # After each: a machine may be taken back in the middle.
                keep(timings, graders.device, failed, quiet=True)
        finally:
            keep(timings, graders.device, failed, quiet=True)
            Console(width=110).print(table_of(timings))
            print("\n".join(failed), flush=True)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
