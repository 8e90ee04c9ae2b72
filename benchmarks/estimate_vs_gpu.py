"""The simulator's estimate of time against a GPU's clock: our own kernels, honest ones and variants, at two sizes.

    python benchmarks/estimate_vs_gpu.py --measure FILE [--seconds 330]     (on a GPU: only measures)

What was measured when the time is up is saved; FILE is written again and again on the way.
"""

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "gpu"))

import corpus
from graders import BackendName, Graded, Graders, Task, gpu_versions
from kernel_variants import honest as variants

from common.contract import Settings
from evaluator.problems.catalogue import find, problems
from evaluator.problems.problem import Sizes

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
        for sizes in (find(problem).timing_sizes, SMALLER[problem])
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
        "registers": {one.kernel: one.registers for one in compiled.kernels} if compiled else {},
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
        "device": timing.device.model_dump(mode="json", exclude={"uuid"}),
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
        partial = file.with_suffix(".part")
        partial.write_text(json.dumps(found, indent=1) + "\n")
        partial.replace(file)

    with Graders(workers, backend) as graders:
        found["device"] = graders.device
        try:
            for graded in graders.grade(tasks, until_s):
                row = _row(by_name[graded.task.name], graded)
                found["rows"].append(row)
                told = f"{row['latency_us']:12.2f} us" if "latency_us" in row else f"{row['status']:>15}"
                print(
                    f"{told}  {graded.took_s:6.2f} s  {graded.task.name}  {row.get('message', '')[:200]}", flush=True
                )
                if len(found["rows"]) % _SAVE_EVERY == 0:
                    keep()
        finally:
            keep()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", type=Path, metavar="FILE", required=True)
    parser.add_argument("--seconds", type=float, default=330.0, help="nothing new is begun after these")
    parser.add_argument("--workers", type=int, default=max(1, min(8, (os.cpu_count() or 2) - 2)))
    parser.add_argument(
        "--backend", choices=("gpu", "sim"), default="gpu", help="sim: try the benchmark, not the GPU"
    )
    wanted = parser.parse_args()
    found = measure(subjects(), wanted.measure, wanted.seconds, wanted.workers, wanted.backend)
    timed = sum("latency_us" in row for row in found["rows"])
    print(f"{timed} timed, {len(found['rows']) - timed} not timed, of {found['wanted']}")


if __name__ == "__main__":
    main()
