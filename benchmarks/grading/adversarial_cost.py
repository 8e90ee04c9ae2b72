"""What drawn schedules and weak memory cost, of the time that a grading takes, kernel by kernel.

Each kernel is graded once to warm the caches, then in each mode of verification. Runs of its program are sorted by
what they are for: plain, watched, in drawn schedules (with weak memory too), in weak memory alone. Their times are
what the program's own process took of a processor; a grading's is all that it took.

    python benchmarks/grading/adversarial_cost.py [--kernels FOLDER] [--match WORD] [--modes quick full]
"""

import argparse
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks._support.record import save
from common.contract import Settings, Status, Submission
from evaluator.backends.session import PlanRun, RunOutcome
from evaluator.backends.sim.session import SimulatorSession
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox
from evaluator.settings import MachineSettings

_CORPUS = Path(__file__).parents[2] / "tests" / "kernels" / "right" / "concurrent"
_MOST_SHARE = 0.5
"""Of a grading's time, for all of its adversarial runs."""


@dataclass(frozen=True)
class GradingCost:
    """Where the time of one grading went."""

    kernel: str
    mode: str
    status: str
    grading_s: float
    plain_s: float
    watched_s: float
    scheduled_s: float
    weak_s: float
    scheduled_runs: int
    weak_runs: int

    @property
    def share(self) -> float:
        """Of the adversarial runs in the grading."""
        return (self.scheduled_s + self.weak_s) / self.grading_s


def _kind(run: PlanRun) -> str:
    if run.schedule:
        return "scheduled"
    return "weak" if run.weak_memory else "watched" if run.watch else "plain"


@contextmanager
def _recorded(times: list[tuple[str, float]]) -> Iterator[None]:
    """Have each run of a program noted with its kind and seconds."""
    original = SimulatorSession.run

    def run(self: SimulatorSession, plan: PlanRun) -> RunOutcome:
        began_s = time.monotonic()
        outcome = original(self, plan)
        wall_s = time.monotonic() - began_s
        times.append((_kind(plan), wall_s if outcome.own_s is None else min(outcome.own_s, wall_s)))
        return outcome

    SimulatorSession.run = run  # type: ignore[method-assign]
    try:
        yield
    finally:
        SimulatorSession.run = original  # type: ignore[method-assign]


def cost_of(toolbox: Toolbox, path: Path, mode: str) -> GradingCost:
    """Grade a kernel whose header names its problem."""
    source = path.read_text()
    said = dict(re.findall(r"^// (problem|flags): (.*)$", source, re.MULTILINE))
    settings = Settings(verification=mode, flags=tuple(said.get("flags", "").split()), run_timeout_s=30)
    times: list[tuple[str, float]] = []
    with _recorded(times):
        began_s = time.perf_counter()
        verdict = evaluate(
            Submission(problem=said["problem"], source=source, backend="sim", settings=settings), toolbox
        )
        grading_s = time.perf_counter() - began_s
    spent = {kind: sum(s for each, s in times if each == kind) for kind in ("plain", "watched", "scheduled", "weak")}
    counted = {kind: sum(each == kind for each, _ in times) for kind in ("scheduled", "weak")}
    status = verdict.status.value if verdict.status is Status.PASSED else f"{verdict.status.value}: {verdict.message}"
    return GradingCost(
        path.stem, mode, status, grading_s, spent["plain"], spent["watched"], spent["scheduled"], spent["weak"],
        counted["scheduled"], counted["weak"],
    )  # fmt: skip


def _show(costs: Sequence[GradingCost]) -> None:
    table = Table("kernel", "mode", "status", "grading s", "plain", "watched", "schedules", "weak", "share")
    for cost in sorted(costs, key=lambda cost: -cost.grading_s):
        runs = f"{cost.scheduled_s:.2f} ({cost.scheduled_runs})", f"{cost.weak_s:.2f} ({cost.weak_runs})"
        said = cost.status if len(cost.status) < 40 else cost.status[:37] + "..."
        own = f"{cost.grading_s:.2f}", f"{cost.plain_s:.2f}", f"{cost.watched_s:.2f}"
        table.add_row(cost.kernel, cost.mode, said, *own, *runs, f"{cost.share:.2f}")
    Console(width=160).print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=Path, default=_CORPUS, help="a folder of kernels")
    parser.add_argument("--match", default="", help="those whose names have this word in them")
    parser.add_argument("--modes", nargs="+", default=["quick", "full"], choices=["quick", "full"])
    asked = parser.parse_args()
    paths = sorted(path for path in asked.kernels.glob("*.cu") if re.search(asked.match, path.stem))
    costs = []
    with tempfile.TemporaryDirectory() as folder:
        toolbox = Toolbox(MachineSettings(Path(folder)))
        toolbox.simulator.warm_up()
        for path in paths:
            cost_of(toolbox, path, "quick")
            costs += [cost_of(toolbox, path, mode) for mode in asked.modes]
    _show(costs)
    figures: dict[str, float] = {"kernels": len(paths)}
    for mode in asked.modes:
        of_mode = [cost for cost in costs if cost.mode == mode]
        figures[f"{mode}_grading_p50_s"] = statistics.median(cost.grading_s for cost in of_mode)
        figures[f"{mode}_grading_most_s"] = max(cost.grading_s for cost in of_mode)
        figures[f"{mode}_share_p50"] = statistics.median(cost.share for cost in of_mode)
        figures[f"{mode}_share_most"] = max(cost.share for cost in of_mode)
        figures[f"{mode}_share_of_all"] = sum(cost.scheduled_s + cost.weak_s for cost in of_mode) / sum(
            cost.grading_s for cost in of_mode
        )
        figures[f"{mode}_not_passed"] = sum(cost.status != "passed" for cost in of_mode)
    goals = {f"{mode}_share_most": ("<=", _MOST_SHARE) for mode in asked.modes}
    return (
        0 if save("adversarial_cost", figures, goals, details={"gradings": [asdict(cost) for cost in costs]}) else 1
    )


if __name__ == "__main__":
    sys.exit(main())
