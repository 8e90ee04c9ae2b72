"""What every benchmark saves: its figures and goals as JSON beside it, and a table on the terminal."""

import json
import os
import platform
import shlex
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import numpy
from rich.console import Console
from rich.table import Table

from common.file_replacement import replace_file
from evaluator import __version__
from evaluator.backends.sim.backend import processor
from evaluator.stages.compile.toolchain import find_toolchain

RESULTS = Path(os.environ.get("BENCHMARK_RESULTS") or Path(__file__).parents[1] / "results")
"""Another folder than the repository's own: `BENCHMARK_RESULTS=/somewhere python benchmarks/…`."""


def _program() -> str:
    """The benchmark that runs, as one calls it from the repository's root."""
    path, root = Path(sys.argv[0]).resolve(), Path(__file__).parents[2]
    return str(path.relative_to(root)) if path.is_relative_to(root) else path.name


def save(
    name: str,
    figures: Mapping[str, float],
    goals: Mapping[str, tuple[str, float]],
    versions: Mapping[str, str] | None = None,
    *,
    device: str = "",
    measured_here: bool = True,
    details: Mapping[str, object] | None = None,
    quiet: bool = False,
) -> bool:
    """Print the figures beside their goals and save `results/NAME.json`; True when every goal is met.

    `device`: what was measured on, beside this processor; where it was not `measured_here`, all of it, and nothing of
    this machine is added. `details`: what the figures are of (sizes, samples).
    `quiet` saves only: for what is known so far.
    """
    table = Table("figure", "measured", "goal", title=name)
    met = True
    for figure, value in figures.items():
        goal = goals.get(figure)
        reached = goal is None or (value >= goal[1] if goal[0] == ">=" else value <= goal[1])
        met = met and reached
        said = "" if goal is None else f"{goal[0]} {goal[1]:g} {'met' if reached else 'MISSED'}"
        table.add_row(figure, f"{value:.6g}", said)
    if not quiet:
        Console().print(table)
    record = {
        "name": name,
        "date": datetime.now(UTC).date().isoformat(),
        "device": ", ".join(filter(None, (device, processor(), platform.system()))) if measured_here else device,
        "versions": {
            "assay": __version__,
            "python": platform.python_version(),
            "numpy": numpy.__version__,
            "toolchain": find_toolchain().label,
            **(versions or {}),
        },
        "command": shlex.join(["python", _program(), *sys.argv[1:]]),
        "figures": dict(figures),
        "goals": {figure: list(goal) for figure, goal in goals.items()},
    }
    if details:
        record["details"] = dict(details)
    RESULTS.mkdir(exist_ok=True)
    replace_file(RESULTS / f"{name}.json", json.dumps(record, indent=2) + "\n")
    return met
