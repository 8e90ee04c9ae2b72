"""The rate of a service on one GPU, on all of this machine, and on all while referees of the first one are killed.

    python benchmarks/gpu/several_gpus.py --seconds 125      # for each of the three, one after another
    python benchmarks/gpu/several_gpus.py --figures FOLDER   # of results that are there, on any machine

Each is `throughput.py` at coarse precision, with a worker for each core of the machine; its own results stay in the
folder (`one`, `all`, `failing`). Only the number of GPUs differs between the first two.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks._support.record import save

NAME = "several_gpus"
WAYS: Mapping[str, tuple[str, ...]] = {"one": ("--gpu", "0"), "all": (), "failing": ("--failing",)}
PASSES = ("coarse_cold", "coarse_warm")
KEPT = ("per_minute", "evaluations", "wrong", "p50_s", "p99_s", "cpu_s_each", "gpu_busy_share", "referee_s_each")
GAIN = 1.9
"""Of two GPUs over one: what placing and sharing the machine may cost is a twentieth."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=125.0, help="of each, about")
    parser.add_argument("--figures", type=Path, help="only the figures of the results in this folder")
    given = parser.parse_args()
    if given.figures is not None:
        sys.exit(0 if saved(given.figures) else 1)
    with tempfile.TemporaryDirectory(prefix="assay-gpus-") as named:
        for way in WAYS:
            _measure(way, Path(named), given.seconds)
        sys.exit(0 if saved(Path(named)) else 1)


def _measure(way: str, folder: Path, seconds: float) -> None:
    told = ["--modes", "coarse", "--workers", str(os.cpu_count()), "--seconds", str(seconds), *WAYS[way]]
    command = [sys.executable, Path(__file__).with_name("throughput.py"), *told]
    (folder / way).mkdir()
    # It ends with 1 where a goal of its own, for one GPU, is missed.
    subprocess.run(command, env=os.environ | {"BENCHMARK_RESULTS": str(folder / way)}, check=False)


def saved(folder: Path) -> bool:
    """Save the figures of what lies in `folder`; whether the goals are met."""
    found: dict[str, Mapping[str, Any]] = {
        way: json.loads((folder / way / "throughput.json").read_text()) for way in WAYS
    }
    every = found["all"]
    figures = figures_of({way: record["figures"] for way, record in found.items()})
    goals = {"wrong_verdicts": ("<=", 0.0)}
    if figures["gpus"] == 2:
        goals["coarse_cold_over_one"] = (">=", GAIN)
        goals["coarse_warm_over_one"] = (">=", GAIN)
    details = {
        way: {"command": record["command"], "wrong": record["details"]["wrong"]} for way, record in found.items()
    }
    device = every["device"]
    return save(NAME, figures, goals, every["versions"], device=device, measured_here=False, details=details)


def figures_of(found: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Of each way, and of all GPUs over one."""
    figures = {name: found["all"][name] for name in ("gpus", "cores", "workers", "clients", "referees_per_gpu")}
    for way, own in found.items():
        figures |= {f"{way}_{each}_{name}": own[f"{each}_{name}"] for each in PASSES for name in KEPT}
    for each in PASSES:
        one, all_, failing = (found[way][f"{each}_per_minute"] for way in WAYS)
        figures |= {f"{each}_over_one": all_ / one, f"{each}_failing_over_one": failing / one}
    return figures | {"wrong_verdicts": sum(own["wrong_verdicts"] for own in found.values())}


if __name__ == "__main__":
    main()
