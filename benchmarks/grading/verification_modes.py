"""What a verdict takes in each mode, where the program was compiled before: each problem's fast kernel, both in turn.

In one warm process, as in a service or a trainer; `assay grade` starts one first, which is measured for one problem.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, Literal

from rich.progress import track

from benchmarks._support.record import save
from common.contract import Settings, Status, Submission
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.catalogue import problems
from evaluator.problems.problem import Problem
from evaluator.settings import MachineSettings

_TIMES: Final = 5
_Mode = Literal["quick", "full"]
_MODES: Final[tuple[_Mode, ...]] = ("quick", "full")
_OPTIONS: Final[dict[_Mode, list[str]]] = {"quick": ["--quick"], "full": []}


def _seconds(toolbox: Toolbox, problem: Problem, mode: _Mode) -> float:
    settings = Settings(verification=mode)
    submission = Submission(problem=problem.id, source=problem.fast.source, backend="sim", settings=settings)
    started = time.perf_counter()
    verdict = evaluate(submission, toolbox)
    took = time.perf_counter() - started
    assert verdict.status is Status.PASSED, f"{problem.id}: {verdict.message}"
    return took


def _command_seconds(file: Path, mode: _Mode) -> float:
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "assay", "grade", str(file), *_OPTIONS[mode]], capture_output=True, check=True
    )
    return time.perf_counter() - started


def _of_commands(problem: Problem, folder: Path) -> dict[_Mode, float]:
    """Medians of the whole command, in turn."""
    file = folder / f"{problem.id}.cu"
    file.write_text(f"// problem: {problem.id}\n{problem.fast.source}")
    taken: dict[_Mode, list[float]] = {mode: [] for mode in _MODES}
    for turn in range(_TIMES + 1):
        for mode in _MODES:
            seconds = _command_seconds(file, mode)
            taken[mode] += [seconds] if turn else []  # the first compiles
    return {mode: statistics.median(taken[mode]) for mode in _MODES}


def main() -> None:
    medians: dict[_Mode, dict[str, float]] = {mode: {} for mode in _MODES}
    with tempfile.TemporaryDirectory() as folder:
        toolbox = Toolbox(MachineSettings(Path(folder)))
        toolbox.simulator.warm_up()
        for problem in track(list(problems().values()), description="Grading", transient=True):
            for mode in _MODES:
                _seconds(toolbox, problem, mode)
            taken = [[_seconds(toolbox, problem, mode) for mode in _MODES] for _ in range(_TIMES)]
            for mode, of in zip(_MODES, zip(*taken, strict=True), strict=True):
                medians[mode][problem.id] = statistics.median(of)
        commands = _of_commands(problems()["relu"], Path(folder))
    easy = [problem.id for problem in problems().values() if problem.tier <= 1]
    figures: dict[str, float] = {}
    for mode, of_problems in medians.items():
        figures[f"{mode}_tiers_0_and_1_p50_s"] = statistics.median(of_problems[name] for name in easy)
        figures[f"{mode}_slowest_problem_s"] = max(of_problems.values())
        figures[f"{mode}_relu_command_s"] = commands[mode]
    figures |= {f"{mode}_{name}_s": medians[mode][name] for name in problems() for mode in _MODES}
    goals = {"full_tiers_0_and_1_p50_s": ("<=", 0.6), "full_slowest_problem_s": ("<=", 3.0)}
    save("verification_modes", figures, goals, details={"samples": _TIMES})


if __name__ == "__main__":
    main()
