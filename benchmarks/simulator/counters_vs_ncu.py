"""The simulator's counters against Nsight Compute's, for the same machine code's PTX on the same inputs.

    python benchmarks/simulator/counters_vs_ncu.py --measure     (on a GPU: what ncu says, to
    results/counters_ncu.json) python benchmarks/simulator/counters_vs_ncu.py               (anywhere: runs the
    simulator, compares with that file)

Each kernel runs once at its problem's first published size, whole, on the inputs that a fixed seed draws. Every
counter that both have is compared launch by launch; kernels that the simulator cannot run are named.
"""

import argparse
import csv
import io
import json
import platform
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks._support.record import RESULTS, save
from common.contract import Settings
from common.contract.counters import LaunchCounts
from common.file_replacement import replace_file
from evaluator.backends.gpu.device.health import gpus
from evaluator.backends.gpu.tools import nsight
from evaluator.backends.gpu.tools.launch import ToolRunner
from evaluator.backends.session import KernelLaunch, PlanRun, Program, UnsupportedError
from evaluator.errors import Ruling
from evaluator.pipeline.build import build
from evaluator.pipeline.stage_values import Ending, SubmittedSource
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.arrays import NumpyRng
from evaluator.problems.catalogue import find_problem
from evaluator.problems.problem import Sizes
from evaluator.settings import MachineSettings
from evaluator.stages.launch.checked_plan import CheckedPlan

ARCH: Final = "sm_90a"
NCU: Final = RESULTS / "counters_ncu.json"
_ROOT: Final = Path(__file__).parents[2]
_SEED: Final = 1
_POISON: Final = 0xFF
_LIMIT_S: Final = 60.0
_BANK_CONFLICTS: Final = """\
// problem: transpose
// assay: launch t grid=(ceil_div(cols, 32), ceil_div(rows, 32)) block=(32, 32) args=(x, y, rows, cols)
__global__ void t(const float* x, float* y, int rows, int cols)
{
    __shared__ float tile[32][32];
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
    if (r < rows && c < cols) tile[threadIdx.y][threadIdx.x] = x[(size_t)r * cols + c];
    __syncthreads();
    c = blockIdx.y * 32 + threadIdx.x; r = blockIdx.x * 32 + threadIdx.y;
    if (r < cols && c < rows) y[(size_t)r * rows + c] = tile[threadIdx.x][threadIdx.y];
}
"""
KERNELS: Final = (
    *("vector_add_plain", "naive/transpose", "transpose_padded_tile", "bank_conflicts", "histogram_shared_atomics"),
    *("histogram_match_any", "reduce_sum_atomic", "reduce_sum_two_pass", "softmax_online_warp", "matmul_naive"),
    *("matmul_register_tile", "matmul_f16_half2", "gelu_double", "attention_three_launches", "naive/softmax"),
    *("naive/layer_norm", "matmul_f16_mma", "saxpy_cp_async", "row_sum_cluster", "relu_bulk_copy"),
    *("reduce_sum_grid_sync",),
)
"""Of the tests' honest kernels, and naive ones of the problems."""
WAITING: Final = frozenset({"reduce_sum_grid_sync", "relu_bulk_copy"})
"""They look again and again whether others are done: how often is chance, on both sides."""
_KEPT: Final = frozenset({*nsight.METRICS, "Kernel Name", "Grid Size", "Block Size"})


@dataclass(frozen=True)
class Subject:
    """One kernel, compiled and ready to run at its size."""

    program: Program
    checked_plan: CheckedPlan
    sizes: Sizes

    @property
    def run(self) -> PlanRun:
        """The same inputs each time."""
        sized_plan = self.checked_plan.at(self.sizes, 8 << 30)
        if isinstance(sized_plan, Ruling):
            raise SystemExit(sized_plan.message)
        inputs = self.checked_plan.problem.distributions[0].draw(NumpyRng(np.random.default_rng(_SEED)), self.sizes)
        return PlanRun(sized_plan.buffers_with(inputs), sized_plan.steps, _POISON, _LIMIT_S, count=True)


def source_of(name: str) -> str:
    """A kernel's source, with `// problem:`."""
    if name == "bank_conflicts":
        return _BANK_CONFLICTS
    if name.startswith("naive/"):
        problem = name.removeprefix("naive/")
        return f"// problem: {problem}\n{find_problem(problem).naive.source}"
    paths = [_ROOT / folder / f"{name}.cu" for folder in ("tests/kernels", "tests/gpu/kernels")]
    return next(path for path in paths if path.is_file()).read_text(encoding="utf-8")


def subject(name: str, toolbox: Toolbox) -> Subject:
    """Compile a kernel and fit its plan."""
    source = source_of(name)
    head = dict(line[3:].split(": ", 1) for line in source.splitlines() if line.startswith("// ") and ": " in line)
    problem = find_problem(head["problem"])
    settings = Settings(flags=tuple(head.get("flags", "").split()))
    built = build(SubmittedSource(problem, source.encode(), None, settings, ARCH), toolbox)
    if isinstance(built, Ending):
        raise SystemExit(f"{name}: {built.ruling}")
    return Subject(built.program, built.checked_plan, problem.example_sizes[0])


def measure(toolbox: Toolbox) -> None:
    """Let ncu look at every kernel; save its reports, cut to what is asked for."""
    gpu = gpus()[0]
    tool_runner = ToolRunner(toolbox.sandbox, gpu.uuid)
    reports: dict[str, Any] = {}
    for name in KERNELS:
        one = subject(name, toolbox)
        watched = tool_runner.watch("ncu", nsight.options(nsight.METRICS), one.program, [one.run], _POISON, _LIMIT_S)
        if not nsight.parse_report(watched.report):
            print(f"{name}: {nsight.refusal(watched)}", file=sys.stderr)
            continue
        reports[name] = {"wall_s": round(watched.wall_s, 2), "sizes": one.sizes, "report": cut(watched.report)}
        print(f"{name}: {watched.wall_s:.1f} s", flush=True)
        record = {
            "name": "counters_ncu",
            "date": datetime.now(UTC).date().isoformat(),
            "device": gpu.name,
            "versions": {"python": platform.python_version(), "numpy": np.__version__},
            "command": "python benchmarks/simulator/counters_vs_ncu.py --measure",
            "reports": reports,
        }
        replace_file(NCU, json.dumps(record, indent=1) + "\n")


def cut(report: str) -> str:
    """A report without the hundreds of columns that were not asked for, and without addresses of instructions."""
    table = list(csv.reader([line for line in report.splitlines() if line.startswith('"')]))
    kept = [place for place, column in enumerate(table[0]) if column in _KEPT]
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([row[place].partition(" (0x")[0] for place in kept] for row in table)
    return text.getvalue()


def counted_by_ncu(one: Subject, report: str) -> tuple[LaunchCounts, ...]:
    """The profiler's counts of each launch."""
    names = {entry.symbol: entry.name for entry in one.program.entries}
    launches = [step for step in one.run.steps if isinstance(step, KernelLaunch)]
    halves = nsight.has_half_arithmetic(one.program.ptx)
    return tuple(
        nsight.launch_counts(row, names[row.symbol].partition("(")[0], launch, launch.shared_bytes, halves)
        for row, launch in zip(nsight.parse_report(report), launches, strict=True)
    )


def counted_by_simulator(one: Subject, toolbox: Toolbox) -> tuple[LaunchCounts, ...]:
    """The simulator's counts of each launch. Raises UnsupportedError."""
    with toolbox.simulator.prepare(one.program, Settings()) as session:
        outcome = session.run(one.run)
    if outcome.fault is not None:
        raise SystemExit(f"The simulator stopped: {outcome.fault.message}")
    return outcome.counts


def numbers(counts: LaunchCounts) -> Iterator[tuple[str, int]]:
    """Every counter that both sides have, by name."""
    for name in ("warp_instructions", "thread_instructions", "branches", "divergent_branches", "barriers"):
        yield name, getattr(counts, name)
    for name in ("loads", "stores", "local"):
        traffic = getattr(counts, name)
        units = ("requests", "sectors") if name == "local" else ("requests", "sectors", "useful_bytes")
        yield from ((f"{name}.{unit}", getattr(traffic, unit)) for unit in units)
    for unit in ("requests", "wavefronts", "least_wavefronts"):
        yield f"shared.{unit}", getattr(counts.shared, unit)
    for unit in ("requests", "operations"):
        yield f"atomics.{unit}", getattr(counts.atomics, unit)
    yield from ((f"flops.{kind}", counts.flops.get(kind, 0)) for kind in ("fp32", "fp64", "fp16", "tensor"))


def error(simulated: int, counted: int) -> float:
    """The difference of two counts over the larger one."""
    return abs(simulated - counted) / max(simulated, counted, 1)


def compare(toolbox: Toolbox) -> bool:
    """Compare all that the file of ncu's reports has, and save what came of it."""
    measured = json.loads(NCU.read_text(encoding="utf-8"))
    rows: list[dict[str, Any]] = []
    unsupported: dict[str, str] = {}
    lacking: set[str] = set()
    for name, one_report in measured["reports"].items():
        if name in WAITING:
            continue
        one = subject(name, toolbox)
        lacking |= {metric for metric in nsight.METRICS if metric not in one_report["report"]}
        try:
            simulated = counted_by_simulator(one, toolbox)
        except UnsupportedError as missing:
            unsupported[name] = missing.feature
            continue
        by_ncu = counted_by_ncu(one, one_report["report"])
        for ours, theirs in zip(simulated, by_ncu, strict=True):
            pairs = zip(numbers(ours), numbers(theirs), strict=True)
            rows += [
                {"kernel": name, "launch": ours.kernel, "counter": counter, "simulator": mine, "ncu": other}
                for (counter, mine), (_, other) in pairs
                if (mine or other) and not (counter.startswith("shared.") and lacking)
            ]
        print(f"{name}: compared", flush=True)
    figures: dict[str, float] = {"kernels": len({row["kernel"] for row in rows}), "unsupported": len(unsupported)}
    for counter in dict.fromkeys(row["counter"] for row in rows):
        errors = [error(row["simulator"], row["ncu"]) for row in rows if row["counter"] == counter]
        figures[f"{counter}_launches"] = len(errors)
        figures[f"{counter}_exact"] = sum(one == 0 for one in errors)
        figures[f"{counter}_error_p50"] = statistics.median(errors)
        figures[f"{counter}_error_most"] = max(errors)
    details: dict[str, Any] = {
        "ncu": {key: measured[key] for key in ("date", "device")},
        "rows": rows,
        "unsupported": unsupported,
    }
    details |= {"waiting": sorted(WAITING), "lacking": sorted(lacking)}
    versions = {f"{name} on the GPU": version for name, version in measured["versions"].items()}
    return save("counters_vs_ncu", figures, {}, versions, device=measured["device"], details=details)


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="let ncu look, on a GPU")
    asked = parser.parse_args()
    toolbox = Toolbox(MachineSettings.from_environment())
    if asked.measure:
        measure(toolbox)
    else:
        compare(toolbox)


if __name__ == "__main__":
    main()
