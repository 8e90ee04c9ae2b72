"""The simulator's estimate of time against a GPU's clock: our own kernels, honest ones and variants, at two sizes.

    python benchmarks/simulator/estimate_vs_gpu.py --measure FILE [--seconds 330]     (on a GPU: only measures)
    python benchmarks/simulator/estimate_vs_gpu.py [--counts FILE]                    (needs no GPU)

What was measured when the time is up is saved; FILE is written again and again on the way. The second command counts
the same kernels on the simulator (`--counts` keeps the counts from run to run), estimates their times on the GPU that
measured `results/estimate_measured.json`, and compares. The constants of `evaluator.stages.profile.estimate.Tuning`
were fitted to every second problem in alphabetical order, from the first; the others are held out, and reported
apart.
"""

import argparse
import hashlib
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "gpu"))

import corpus
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from scipy.stats import kendalltau, spearmanr

from benchmarks._support.graders import BackendName, Graded, Graders, Task, gpu_versions
from benchmarks._support.kernel_variants import honest as variants
from benchmarks._support.record import RESULTS, save
from common.contract import KernelResources, Settings
from common.contract.counters import Estimate, Evidence
from common.file_replacement import replace_file
from evaluator.backends.session import UnsupportedError
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.catalogue import find_problem, problems
from evaluator.problems.problem import Sizes
from evaluator.settings import MachineSettings
from evaluator.stages.profile.estimate import estimate
from evaluator.stages.profile.gpu_models import machines
from scripts.count_naive_kernels import count_kernel

SMALLER: Final[Mapping[str, Sizes]] = {
    **{flat: {"n": 1_500_000} for flat in ("scalar_multiply", "vector_add", "saxpy", "relu", "gelu")},
    "reduce_sum": {"n": 1 << 20},
    "row_sum": {"rows": 1500, "cols": 3000},
    "transpose": {"rows": 1500, "cols": 1000},
    "prefix_sum": {"n": 1 << 19},
    "histogram": {"n": 3_000_000},
    "matvec": {"m": 3000, "k": 2000},
    "matmul": {"m": 512, "n": 768, "k": 640},
    "linear_gelu": {"m": 512, "n": 768, "k": 640},
    "matmul_f16": {"m": 1024, "n": 768, "k": 512},
    **{by_row: {"rows": 1500, "cols": 1000} for by_row in ("softmax", "layer_norm", "rms_norm")},
    "conv2d": {"batch": 4, "in_channels": 32, "out_channels": 64, "height": 28, "width": 28},
    "swiglu": {"rows": 1000, "cols": 1500},
    "attention": {"heads": 4, "seq": 512, "dim": 64},
}
"""The second size of each problem: some tenths of the first one's work, and other remainders."""
_EVERY_VARIANT: Final = 8
_SAVE_EVERY: Final = 10
_BLOCKS: Final = 8
"""As many as a grading counts."""
MEASURED: Final = RESULTS / "estimate_measured.json"
GOALS: Final = {
    "held_out_spearman": (">=", 0.9),
    "held_out_kendall": (">=", 0.9),
    "held_out_speedup_spearman": (">=", 0.9),
    "all_spearman": (">=", 0.9),
    "median_within_problem_spearman": (">=", 0.9),
}


@dataclass(frozen=True)
class Subject:
    """One kernel at one size."""

    kernel: str
    """`naive/PROBLEM`, `fast/PROBLEM`, `honest/FILE` or `variant/NAME`."""
    problem: str
    source: str
    flags: tuple[str, ...]
    sizes: Sizes

    @property
    def name(self) -> str:
        """Kernel and size in one text, for example `naive/matvec m=8192 k=4096`."""
        return " ".join([self.kernel, *(f"{size}={value}" for size, value in self.sizes.items())])


def subjects() -> list[Subject]:
    """All kernels at both sizes: our own first, then honest ones of the tests, then every eighth variant."""
    kernels: list[tuple[str, str, str, tuple[str, ...]]] = []
    for problem in problems().values():
        kernels += [(f"naive/{problem.id}", problem.id, problem.naive.source, ())]
        kernels += [(f"fast/{problem.id}", problem.id, problem.fast.source, ())]
    for case in corpus.honest():
        kernels += [(f"honest/{case.name}", case.head["problem"], case.source, case.settings().flags)]
    for variant in variants()[::_EVERY_VARIANT]:
        kernels += [(f"variant/{variant.name}", variant.problem, variant.source, ())]
    return [
        Subject(name, problem, source, flags, sizes)
        for name, problem, source, flags in kernels
        for sizes in (find_problem(problem).timing_sizes, SMALLER[problem])
    ]


def _row(subject: Subject, graded: Graded) -> dict[str, Any]:
    verdict = graded.verdict
    timing, compiled = verdict.timing, verdict.compile
    row: dict[str, Any] = {
        "kernel": subject.kernel,
        "problem": subject.problem,
        "sizes": dict(subject.sizes),
        "source_sha256": hashlib.sha256(subject.source.encode()).hexdigest(),
        "status": verdict.status.value,
        "arch": compiled.arch if compiled else None,
    }
    if timing is None:
        return row | {"message": verdict.message}
    return row | {
        "latency_us": timing.latency_us,
        "host_us": timing.host_us,
        "baseline_us": timing.baseline_us,
        "speedup": timing.speedup,
        "launches": timing.launches,
        "sol_us": timing.sol_us,
    }


def measure(
    wanted: Sequence[Subject], file: Path, seconds: float, workers: int, backend: BackendName
) -> dict[str, Any]:
    """Time every kernel, as far as there is time, and write `file`; the simulator only tries the way there."""
    until_s = time.monotonic() + seconds
    limits: dict[str, Any] = {"rehearse": False, "max_launches": 30, "timing_precision": 0.02}
    by_name = {subject.name: subject for subject in wanted}
    tasks = []
    for one in wanted:
        settings = Settings(sizes=dict(one.sizes), flags=one.flags, **limits)
        tasks.append(Task(one.name, one.problem, one.source, settings, alone=True))
    found: dict[str, Any] = {"device": "", "versions": gpu_versions(), "wanted": len(tasks), "rows": []}

    def keep() -> None:
        replace_file(file, json.dumps(found, indent=1) + "\n")

    with Graders(workers, backend) as graders:
        found["device"] = graders.device
        try:
            for graded in graders.grade(tasks, until_s):
                row = _row(by_name[graded.task.name], graded)
                found["rows"].append(row)
                if graded.verdict.timing is not None:
                    found["gpu"] = graded.verdict.timing.device.model_dump(mode="json", exclude={"uuid"})
                told = f"{row['latency_us']:12.2f} us" if "latency_us" in row else f"{row['status']:>15}"
                print(
                    f"{told}  {graded.took_s:6.2f} s  {graded.task.name}  {row.get('message', '')[:200]}", flush=True
                )
                if len(found["rows"]) % _SAVE_EVERY == 0:
                    keep()
        finally:
            keep()
    return found


# --- counts, estimates, and how they compare ---------------------------------------------------------------------


def counts_of(wanted: Sequence[Subject], file: Path | None) -> dict[str, Any]:
    """Counts by subject's name, as `count_kernel` gives them; from `file` what is there, and to it what is not."""
    kept: dict[str, Any] = json.loads(file.read_text()) if file is not None and file.exists() else {}
    toolbox = Toolbox(MachineSettings.from_environment())
    for one in wanted:
        if one.name in kept:
            continue
        settings, sizes = Settings(flags=one.flags), [(one.sizes, _BLOCKS)]
        try:
            (count,) = count_kernel(find_problem(one.problem), one.source, settings, sizes, toolbox, time_limit_s=6.0)
        except UnsupportedError as missing:
            print(f"{one.name}: the simulator lacks {missing}", flush=True)
            count = None
        kept[one.name] = count and {
            "evidence": count.evidence.model_dump(mode="json"),
            "resources": [kernel.model_dump(mode="json") for kernel in count.resources],
            "moved_bytes": list(count.moved_bytes),
        }
        if file is not None:
            file.write_text(json.dumps(kept))
    return kept


@dataclass(frozen=True)
class Pair:
    """One kernel at one size: what a GPU's clock said, and what was estimated."""

    subject: Subject
    measured_us: float
    estimated: Estimate

    @property
    def factor(self) -> float:
        return self.estimated.latency_us / self.measured_us


def held_out() -> set[str]:
    """The problems on which nothing was fitted."""
    return set(sorted(problems())[1::2])


def pairs_of(measured: Mapping[str, Any], counts: Mapping[str, Any], wanted: Sequence[Subject]) -> list[Pair]:
    """Each kernel that was measured as it is now and could be counted."""
    machine = next(one for one in machines().values() if one.device == measured["gpu"]["name"])
    rows = {(row["kernel"], *sorted(row["sizes"].items())): row for row in measured["rows"]}
    found = []
    for one in wanted:
        row, count = rows.get((one.kernel, *sorted(one.sizes.items()))), counts.get(one.name)
        digest = hashlib.sha256(one.source.encode()).hexdigest()
        if not row or not count or "latency_us" not in row or row["source_sha256"] != digest:
            continue
        resources = [KernelResources.model_validate(kernel) for kernel in count["resources"]]
        evidence = Evidence.model_validate(count["evidence"])
        found.append(
            Pair(one, row["latency_us"], estimate(evidence, resources, machine, moved_bytes=count["moved_bytes"]))
        )
    return found


def _ranks(name: str, pairs: Sequence[tuple[float, float]]) -> dict[str, float]:
    measured, estimated = zip(*pairs, strict=True)
    return {
        f"{name}_kernels_and_sizes": len(pairs),
        f"{name}_spearman": float(spearmanr(measured, estimated).statistic),
        f"{name}_kendall": float(kendalltau(measured, estimated).statistic),
        f"{name}_median_factor": math.exp(statistics.median(abs(math.log(e / m)) for m, e in pairs)),
    }


def figures_of(pairs: Sequence[Pair]) -> dict[str, float]:
    """Rank correlations and the median factor between estimate and clock, of times and of speedups over naive."""
    apart, figures = held_out(), dict[str, float]()
    groups: dict[tuple[Any, ...], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault((pair.subject.problem, *pair.subject.sizes.items()), []).append(pair)
    speedups: dict[str, list[tuple[float, float]]] = {"fitted": [], "held_out": []}
    within = []
    for (problem, *_), group in groups.items():
        naive = next((one for one in group if one.subject.kernel.startswith("naive/")), None)
        if naive is not None:
            speedups["held_out" if problem in apart else "fitted"] += [
                (naive.measured_us / one.measured_us, naive.estimated.latency_us / one.estimated.latency_us)
                for one in group
                if one is not naive
            ]
        if len(group) >= 5:
            within.append(float(spearmanr(*_times(group)).statistic))
    kinds = {"held_out": True, "fitted": False}
    for name, wanted in kinds.items():
        chosen = [pair for pair in pairs if (pair.subject.problem in apart) is wanted]
        figures |= _ranks(name, list(zip(*_times(chosen), strict=True)))
        figures |= _ranks(f"{name}_speedup", speedups[name])
    figures |= _ranks("all", list(zip(*_times(pairs), strict=True)))
    figures |= _ranks("all_speedup", [*speedups["held_out"], *speedups["fitted"]])
    return figures | {
        "median_within_problem_spearman": statistics.median(within),
        "worst_within_problem_spearman": min(within),
        "within_twice": sum(0.5 <= pair.factor <= 2 for pair in pairs) / len(pairs),
    }


def _times(pairs: Sequence[Pair]) -> tuple[list[float], list[float]]:
    return [pair.measured_us for pair in pairs], [pair.estimated.latency_us for pair in pairs]


def picture(pairs: Sequence[Pair], figures: Mapping[str, float], device: str) -> str:
    """An SVG of estimated over measured times, both logarithmic, for light and dark pages."""
    low = math.floor(min(math.log10(min(p.measured_us, p.estimated.latency_us)) for p in pairs))
    high = math.ceil(max(math.log10(max(p.measured_us, p.estimated.latency_us)) for p in pairs))

    def place(time_us: float) -> float:
        return 540 * (math.log10(time_us) - low) / (high - low)

    points = [
        {
            "x": 80 + place(pair.measured_us),
            "y": 620 - place(pair.estimated.latency_us),
            "kind": "apart" if pair.subject.problem in held_out() else "fitted",
            "said": f"{pair.subject.name}: {pair.measured_us:.4g} us, estimated {pair.estimated.latency_us:.4g} us",
        }
        for pair in pairs
    ]
    ticks = [(place(10.0**e), f"{10**e:,} us" if e >= 0 else f"{10.0**e:g} us") for e in range(low, high + 1)]
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    template = environment.get_template("estimate_vs_gpu.svg.j2")
    return template.render(points=points, ticks=ticks, figures=figures, device=device)


def _table_us(found: Estimate) -> Mapping[str, float]:
    """Microseconds by resource, all launches together, the largest first."""
    sums: dict[str, float] = {}
    for launch in found.launches:
        for name, term in launch.terms_us.items():
            sums[name] = sums.get(name, 0.0) + term
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def compare(counts_file: Path | None) -> bool:
    """Estimate, compare, save figures, the worst failures and the picture; True when every goal is met."""
    measured, wanted = json.loads(MEASURED.read_text()), subjects()
    pairs = pairs_of(measured, counts_of(wanted, counts_file), wanted)
    figures = figures_of(pairs)
    worst = sorted(pairs, key=lambda pair: -abs(math.log(pair.factor)))[:16]
    details = {
        "held_out": sorted(held_out()),
        "measured_on": measured["device"],
        "not_compared": len(wanted) - len(pairs),
        "worst": [
            {
                "kernel": pair.subject.name,
                "measured_us": pair.measured_us,
                "estimated_us": pair.estimated.latency_us,
                "terms_us": dict(list(_table_us(pair.estimated).items())[:4]),
            }
            for pair in worst
        ],
    }
    (RESULTS / "estimate_vs_gpu.svg").write_text(picture(pairs, figures, measured["gpu"]["name"]), encoding="utf-8")
    return save("estimate_vs_gpu", figures, GOALS, device=measured["device"], details=details)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", type=Path, metavar="FILE", help="only measure, and write this file")
    parser.add_argument("--counts", type=Path, metavar="FILE", help="counts that are kept from run to run")
    parser.add_argument("--seconds", type=float, default=330.0, help="nothing new is begun after these")
    parser.add_argument("--workers", type=int, default=max(1, min(8, (os.cpu_count() or 2) - 2)))
    parser.add_argument(
        "--backend", choices=("gpu", "sim"), default="gpu", help="sim: try the benchmark, not the GPU"
    )
    wanted = parser.parse_args()
    if wanted.measure is None:
        raise SystemExit(0 if compare(wanted.counts) else 1)
    found = measure(subjects(), wanted.measure, wanted.seconds, wanted.workers, wanted.backend)
    timed = sum("latency_us" in row for row in found["rows"])
    print(f"{timed} timed, {len(found['rows']) - timed} not timed, of {found['wanted']}")


if __name__ == "__main__":
    main()
