"""What every benchmark saves: its figures and goals as JSON beside it, and a table on the terminal."""

import json
import platform
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import numpy
from rich.console import Console
from rich.table import Table

from evaluator import __version__
from evaluator.backends.sim.simulator import processor
from evaluator.stages.toolchain import find_toolchain

RESULTS = Path(__file__).parent / "results"


def save(
    name: str,
    figures: Mapping[str, float],
    goals: Mapping[str, tuple[str, float]],
    versions: Mapping[str, str] | None = None,
) -> bool:
    """Print the figures beside their goals and save `results/NAME.json`; True when every goal is met."""
    table = Table("figure", "measured", "goal", title=name)
    met = True
    for figure, value in figures.items():
        goal = goals.get(figure)
        reached = goal is None or (value >= goal[1] if goal[0] == ">=" else value <= goal[1])
        met = met and reached
        said = "" if goal is None else f"{goal[0]} {goal[1]:g} {'met' if reached else 'MISSED'}"
        table.add_row(figure, f"{value:.6g}", said)
    Console().print(table)
    record = {
        "name": name,
        "date": datetime.now(UTC).date().isoformat(),
        "device": f"{processor()}, {platform.system()}",
        "versions": {
            "assay": __version__,
            "python": platform.python_version(),
            "numpy": numpy.__version__,
            "toolchain": find_toolchain().label,
            **(versions or {}),
        },
        "command": f"python benchmarks/{Path(sys.argv[0]).name}",
        "figures": dict(figures),
        "goals": {figure: list(goal) for figure, goal in goals.items()},
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=2) + "\n")
    return met
