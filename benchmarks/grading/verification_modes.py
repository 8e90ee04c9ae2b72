"""What `assay grade` takes from its start to its end in each mode, with the program compiled before.

Each problem's fast kernel, quick and full in turn: the command is started anew each time, so imports count too.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.progress import track

from benchmarks._support.record import save
from evaluator.problems.catalogue import problems

_TIMES = 3
_MODES = {"quick": ["--quick"], "full": []}


def _seconds(file: Path, options: list[str]) -> float:
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "assay", "grade", str(file), "--json", *options], capture_output=True, text=True
    )
    took = time.perf_counter() - started
    status = json.loads(done.stdout)["status"] if done.stdout else done.stderr
    assert status == "passed", f"{file.stem}: {status}"
    return took


def main() -> None:
    measured: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for problem in track(list(problems().values()), description="Grading", transient=True):
            file = Path(folder) / f"{problem.id}.cu"
            file.write_text(f"// problem: {problem.id}\n{problem.fast.source}")
            for options in _MODES.values():
                _seconds(file, options)
            taken = measured[problem.id] = {mode: [] for mode in _MODES}
            for _ in range(_TIMES):
                for mode, options in _MODES.items():
                    taken[mode].append(_seconds(file, options))
    medians = {mode: {name: statistics.median(taken[mode]) for name, taken in measured.items()} for mode in _MODES}
    easy = [problem.id for problem in problems().values() if problem.tier <= 1]
    figures: dict[str, float] = {}
    for mode, of in medians.items():
        figures[f"{mode}_tiers_0_and_1_p50_s"] = statistics.median(of[name] for name in easy)
        figures[f"{mode}_slowest_problem_s"] = max(of.values())
    figures |= {f"{mode}_{name}_s": of[name] for name in problems() for mode, of in medians.items()}
    goals = {"full_tiers_0_and_1_p50_s": ("<=", 0.6), "full_slowest_problem_s": ("<=", 3.0)}
    save("verification_modes", figures, goals, details={"samples": _TIMES})


if __name__ == "__main__":
    main()
