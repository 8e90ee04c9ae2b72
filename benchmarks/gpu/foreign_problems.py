"""Problems of others: kernels of ours, right and wrong, for files in KernelBench's form, on a GPU or the simulator.

    python benchmarks/gpu/foreign_problems.py --backend gpu [--seconds 180] [--only matmul,softmax]
    python benchmarks/gpu/foreign_problems.py --backend sim

The problems are `foreign_kernels/NAME.py`, the kernels `foreign_kernels/NAME.VARIANT.cu`, whose first line says how
they must end. All are compiled first. *Cold* is the first kernel of a file that nobody has graded for, *warm* any
other of it: seconds from the text of the file to the verdict, with a referee and a process that has imported PyTorch
at hand. On a GPU the baselines of every problem are measured at the end, until the time is up.
"""

import argparse
import os
import signal
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, get_args

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks._support.one_gpu import referee_of, with_one_referee
from benchmarks._support.record import save
from common.contract import BaselineName, Settings, Submission, Verdict
from evaluator.errors import AssayError
from evaluator.foreign.loading import foreign_problem
from evaluator.foreign.zygote import KEPT
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox
from evaluator.stages.compile.nvcc import compile_source
from evaluator.stages.screen.cleaning import clean

FOLDER: Final = Path(__file__).parent / "foreign_kernels"
_GOALS_S: Final = {"sim": (10.0, 2.0), "gpu": (5.0, 1.0)}
_FOR_BASELINES_S: Final = 30.0
"""What is left for them at least, when no more kernels are graded."""

Row = dict[str, Any]


def expected_of(source: str) -> list[str]:
    """The statuses with which a kernel may end, by its first line: `// expected: runtime_error | incorrect`."""
    return [one.strip() for one in source.splitlines()[0].removeprefix("// expected:").split("|")]


def _is_right(kernel: Path) -> bool:
    return expected_of(kernel.read_text()) == ["passed"]


def _graded(toolbox: Toolbox, kernel: Path, backend: str, **settings: object) -> Row:
    """One kernel from the text of its problem to the verdict."""
    name, source = kernel.name.partition(".")[0], kernel.read_text()
    text, begun_s = (FOLDER / f"{name}.py").read_bytes(), time.monotonic()
    row: Row = {"problem": name, "kernel": kernel.stem.partition(".")[2], "expected": expected_of(source)}
    try:
        with foreign_problem(text, f"{name}.py", toolbox.sandbox, toolbox.cache, backend=backend) as problem:
            stated_s = time.monotonic() - begun_s
            asked = {"problem": problem.id, "source": source, "backend": backend, "settings": settings}
            verdict = evaluate(Submission.model_validate(asked), toolbox, problem=problem)
    except AssayError as error:
        return {
            **row,
            "status": type(error).__name__,
            "message": str(error),
            "warnings": [],
            "seconds": time.monotonic() - begun_s,
        }
    return {**row, **_told(verdict), "seconds": time.monotonic() - begun_s, "stated_s": stated_s}


def _told(verdict: Verdict) -> Row:
    timing, shown = verdict.timing, verdict.correctness
    return {
        "status": verdict.status.value,
        "phase": verdict.phase.value,
        "message": verdict.message,
        "warnings": list(shown.warnings) if shown else [],
        "latency_us": timing.latency_us if timing else None,
        "speedup": timing.speedup if timing else None,
        "launches": timing.launches if timing else None,
        "checked_launches": timing.checked_launches if timing else None,
        "baselines": [one.model_dump(exclude={"age_s"}) for one in timing.baselines] if timing else [],
        "phases_s": dict(verdict.receipt.phases_s) if verdict.receipt else {},
    }


def _warm_up(toolbox: Toolbox, kernel: Path, backend: str) -> None:
    """Grade for a text that nobody else sends, so that both referees have PyTorch at hand from here on."""
    text = (FOLDER / f"{kernel.name.partition('.')[0]}.py").read_bytes() + b"# to warm up\n"
    with foreign_problem(text, "warm_up.py", toolbox.sandbox, toolbox.cache, backend=backend) as problem:
        asked = Submission(problem=problem.id, source=kernel.read_text(), backend=backend)
        evaluate(asked, toolbox, problem=problem)


def _compiled(toolbox: Toolbox, kernels: list[Path], arch: str) -> None:
    def one(kernel: Path) -> None:
        source = clean(kernel.read_bytes()).source
        compile_source(source, Settings(), arch, toolbox.toolchain, toolbox.sandbox, toolbox.cache)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(one, kernels))


def _show(rows: list[Row]) -> None:
    table = Table("problem", "kernel", "expected", "verdict", "s", "µs", "speedup", "message")
    for row in rows:
        right = row["status"] in row["expected"]
        table.add_row(
            row["problem"],
            row["kernel"],
            " | ".join(row["expected"]),
            row["status"] if right else f"[red]{row['status']}",
            f"{row['seconds']:.2f}",
            f"{row['latency_us']:.4g}" if row.get("latency_us") else "",
            f"{row['speedup']:.3g}" if row.get("speedup") else "",
            escape(
                "" if right and row["status"] != "passed" else "; ".join((row["message"] or "", *row["warnings"]))
            ),
        )
    Console(width=200).print(table)


def _figures(rows: list[Row], compared: list[Row]) -> dict[str, float]:
    cold = [row["seconds"] for row in rows if row["cold"]]
    warm = [row["seconds"] for row in rows if not row["cold"]]
    figures = {
        "problems": float(len({row["problem"] for row in rows})),
        "kernels": float(len(rows)),
        "not_as_expected": float(sum(row["status"] not in row["expected"] for row in rows)),
        "cold_p50_s": statistics.median(cold),
        "cold_worst_s": max(cold),
    }
    if warm:
        figures |= {"warm_p50_s": statistics.median(warm), "warm_worst_s": max(warm)}
    if compared:
        figures["problems_with_all_baselines"] = float(
            sum(all(one["latency_us"] for one in row["baselines"]) for row in compared)
        )
    return figures


def main() -> None:
    """Measure and save."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", choices=["gpu", "sim"], default="sim")
    parser.add_argument("--seconds", type=float, default=600.0, help="after which nothing more is begun")
    parser.add_argument("--only", help="these problems")
    asked = parser.parse_args()
    until_s = time.monotonic() + asked.seconds
    # Right ones first, so that baselines are measured in the cold evaluation.
    kernels = sorted(FOLDER.glob("*.cu"), key=lambda one: (one.name.partition(".")[0], not _is_right(one)))
    if asked.only:
        kernels = [one for one in kernels if one.name.partition(".")[0] in asked.only.split(",")]
    rows: list[Row] = []
    compared: list[Row] = []

    def keep(quiet: bool) -> None:
        cold_s, warm_s = _GOALS_S[asked.backend]
        goals = {"not_as_expected": ("<=", 0.0), "cold_p50_s": ("<=", cold_s), "warm_p50_s": ("<=", warm_s)}
        details = {
            "rows": rows,
            "baselines": [{key: row[key] for key in ("problem", "baselines")} for row in compared],
        }
        name, versions = f"foreign_problems_{asked.backend}", {"torch": torch.__version__}
        save(name, _figures(rows, compared), goals, versions, device=device, details=details, quiet=quiet)

    with tempfile.TemporaryDirectory(prefix="assay-", ignore_cleanup_errors=True) as folder:
        toolbox = Toolbox(with_one_referee(Path(folder), referee_idle_s=60))
        pid = 0
        if asked.backend == "gpu":
            referee = referee_of(toolbox)
            pid = referee.facts()["pid"]
            device, arch = referee.device, referee.arch
        else:
            device, arch = "", toolbox.simulator.arch
            toolbox.simulator.warm_up()
        try:
            begun_s = time.monotonic()
            _compiled(toolbox, kernels, arch)
            print(f"compiled {len(kernels)} kernels in {time.monotonic() - begun_s:.1f} s", flush=True)
            _warm_up(toolbox, kernels[0], asked.backend)
            for kernel in kernels:
                if time.monotonic() > until_s - _FOR_BASELINES_S * (asked.backend == "gpu"):
                    break
                known = {row["problem"] for row in rows}
                row = _graded(toolbox, kernel, asked.backend)
                row["cold"] = row["problem"] not in known
                rows.append(row)
                print(f"{row['problem']}.{row['kernel']}: {row['status']} in {row['seconds']:.2f} s", flush=True)
                if row["status"] == "internal_error" and toolbox.gpu is not None:
                    print(row["message"], toolbox.gpu.log.read_text(errors="replace")[-4000:], flush=True)
                keep(quiet=True)
            right = {row["problem"]: row for row in rows if row["expected"] == ["passed"]}
            for name, row in right.items() if asked.backend == "gpu" else ():
                if time.monotonic() > until_s:
                    break
                kernel = FOLDER / f"{name}.{row['kernel']}.cu"
                compared.append(_graded(toolbox, kernel, "gpu", baselines=get_args(BaselineName), rehearse=False))
                told = {one["name"]: one["latency_us"] or one["why_not"] for one in compared[-1]["baselines"]}
                print(f"{name}: {told}", flush=True)
                keep(quiet=True)
        finally:
            KEPT.end_all()
            if pid:
                os.kill(pid, signal.SIGTERM)
    _show(rows)
    keep(quiet=False)


if __name__ == "__main__":
    main()
