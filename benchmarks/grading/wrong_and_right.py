"""Two corpora held against the verdicts that they must have: wrong kernels that were written to be passed, and right
ones in the styles of many hands.

    python benchmarks/grading/wrong_and_right.py [--backend gpu|sim] [--seconds 500] [--workers N] [--only TEXT …]

A wrong kernel says in its first lines which class it is of; one of class `schedule` needs a schedule or a memory
order that the simulator does not draw, and is counted by itself. Where its header says `passed with a warning`, a
warning is enough. What is done when the time is up is saved.
"""

import argparse
import json
import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks._support.one_gpu import one_gpu
from benchmarks._support.record import RESULTS, save
from common.contract import Settings, Submission
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox
from evaluator.settings import MachineSettings

_TESTS: Final = Path(__file__).parents[2] / "tests"
_WRONG: Final = _TESTS / "adversarial" / "wrong"
_RIGHT: Final = _TESTS / "kernels" / "right"
_NAME: Final = "wrong_and_right"
_LEFT_FOR_SAVING_S: Final = 8.0
_LATER: Final = "schedule"
"""The class that needs schedules and memory orders which are not drawn."""
_toolboxes: list[Toolbox] = []
"""Of this worker process: one."""

Row = dict[str, Any]


@dataclass(frozen=True)
class _Case:
    path: Path
    wrong: bool
    head: dict[str, str]

    @property
    def kind(self) -> str:
        """Its class, of a wrong kernel; else its problem."""
        return self.head.get("class", "?").split()[0] if self.wrong else self.head["problem"]


def _cases(only: Sequence[str]) -> list[_Case]:
    found = []
    for folder, wrong in ((_RIGHT, False), (_WRONG, True)):
        for path in sorted(folder.rglob("*.cu"), key=lambda path: path.stem):
            source = path.read_bytes().decode()
            head = dict(re.findall(r"^// (problem|class|must|flags): (.*?)\r?$", source, re.MULTILINE))
            if not only or any(text in path.stem or text == head.get("class") for text in only):
                found.append(_Case(path, wrong, head))
    return found


def _begin(machine: MachineSettings) -> None:
    _toolboxes.append(Toolbox(machine))


def _graded(case: _Case, backend: Any) -> Row:
    settings = Settings(timing=False, estimate_for=None, flags=tuple(case.head.get("flags", "").split()))
    source = case.path.read_bytes().decode()
    began_s = time.monotonic()
    verdict = evaluate(
        Submission(problem=case.head["problem"], source=source, backend=backend, settings=settings), _toolboxes[0]
    )
    shown = verdict.correctness
    hazards = sorted({hazard.kind for hazard in shown.hazards}) if shown else []
    return {
        "name": case.path.stem,
        "wrong": case.wrong,
        "kind": case.kind,
        "problem": case.head["problem"],
        "status": verdict.status.value,
        "phase": verdict.phase.value,
        "message": verdict.message[:300],
        "hazards": hazards,
        "good": _as_it_must(case, verdict.status.value, hazards),
        "seconds": round(time.monotonic() - began_s, 3),
    }


def _as_it_must(case: _Case, status: str, hazards: list[str]) -> bool:
    if not case.wrong:
        return status == "passed"
    if status == "passed":
        return bool(hazards) and "warning" in case.head.get("must", "")
    return status not in ("unsupported", "internal_error", "cancelled")


def _run(cases: list[_Case], backend: str, workers: int, until_s: float) -> tuple[list[Row], str]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        gpu = one_gpu() if backend == "gpu" else ""
        machine = MachineSettings(Path(folder), gpu=gpu, referee_idle_s=300)
        toolbox = Toolbox(machine)
        if backend == "gpu" and toolbox.gpu is None:
            raise SystemExit("There is no GPU that can be used here: see `assay doctor`.")
        device = toolbox.gpu.device if toolbox.gpu and backend == "gpu" else toolbox.simulator.device
        toolbox.simulator.warm_up()
        pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin, (machine,))
        try:
            waiting: set[Future[Row]] = {pool.submit(_graded, case, backend) for case in cases}
            while waiting and time.monotonic() < until_s:
                done, waiting = wait(waiting, max(0.0, until_s - time.monotonic()), FIRST_COMPLETED)
                for future in done:
                    row = future.result()
                    rows.append(row)
                    mark = "" if row["good"] else "  <-- not as it must be"
                    told = f"{row['seconds']:7.2f} s  {row['name']:44} {row['kind']:14} {row['status']}"
                    print(f"{told} {' '.join(row['hazards'])}{mark}", flush=True)
        finally:
            processes = list((pool._processes or {}).values())
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()
    return rows, device


def _figures(rows: list[Row], planned: int) -> dict[str, float]:
    wrong = [row for row in rows if row["wrong"] and row["kind"] != _LATER]
    later = [row for row in rows if row["wrong"] and row["kind"] == _LATER]
    right = [row for row in rows if not row["wrong"]]
    return {
        "wrong": len(wrong),
        "wrong_passed": sum(not row["good"] for row in wrong),
        "wrong_of_schedules": len(later),
        "wrong_of_schedules_passed": sum(not row["good"] for row in later),
        "right": len(right),
        "right_refused": sum(not row["good"] and row["status"] != "unsupported" for row in right),
        "right_unsupported": sum(row["status"] == "unsupported" for row in right),
        "right_with_a_warning": sum(bool(row["hazards"]) for row in right),
        "not_done": planned - len(rows),
    }


def _show(rows: list[Row]) -> None:
    console = Console(width=160)
    table = Table("wrong kernels by class", "all", "not passed", "passed with its warning", "passed")
    wrong = [row for row in rows if row["wrong"]]
    for kind in sorted({row["kind"] for row in wrong}):
        some = [row for row in wrong if row["kind"] == kind]
        ended = Counter("bad" if not row["good"] else row["status"] == "passed" for row in some)
        table.add_row(kind, str(len(some)), str(ended[False]), str(ended[True]), str(ended["bad"]))
    console.print(table)
    table = Table("not as it must be", "problem", "status", "message")
    for row in rows:
        if not row["good"]:
            table.add_row(row["name"], row["problem"], row["status"], row["message"])
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", choices=("gpu", "sim"), default="sim")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--workers", type=int, default=max(1, min(14, (os.cpu_count() or 2) - 1)))
    parser.add_argument("--only", nargs="*", default=(), metavar="TEXT", help="parts of names, or classes")
    parser.add_argument("--out", type=Path)
    wanted = parser.parse_args()
    cases = _cases(wanted.only)
    if not cases:
        sys.exit(f"No kernel of tests/ has one of {wanted.only} in its name.")
    until_s = time.monotonic() + wanted.seconds - _LEFT_FOR_SAVING_S
    rows, device = _run(cases, wanted.backend, wanted.workers, until_s)
    _show(rows)
    name = f"{_NAME}_{wanted.backend}"
    goals = {
        "wrong_passed": ("<=", 0),
        "right_refused": ("<=", 0),
        "right_unsupported": ("<=", 2),
        "not_done": ("<=", 0),
    }
    if wanted.only:
        return
    save(name, _figures(rows, len(cases)), goals, device=device)
    record = wanted.out or RESULTS / f"{name}.json"
    whole = json.loads((RESULTS / f"{name}.json").read_text())
    whole["verdicts"] = sorted(rows, key=lambda row: (row["wrong"], row["name"]))
    record.write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
