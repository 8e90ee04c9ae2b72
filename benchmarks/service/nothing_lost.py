"""What becomes of evaluations while everything that can be killed is killed: tests/soak in its long form, counted.

    python benchmarks/service/nothing_lost.py [EVALUATIONS] [SET_UP ...]

`EVALUATIONS` for each set-up, 1000 unless said. Set-ups are the tests of tests/soak, by the names of `SET_UPS`
(`composed` ones need what `make e2e` builds). In those named `pressed_…` the processes of each evaluation are hit by
every signal, and each verdict is compared with the undisturbed one.

The results keep the figures of set-ups that are not run now; how far a run has come is saved while it goes on.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks._support.record import RESULTS, save

ROOT = Path(__file__).parents[2]
_ORDEALS = "tests/soak/test_nothing_lost.py::test_"
_PRESSED = "tests/soak/test_false_verdicts.py::test_signals_make_no_verdict_false"
SET_UPS = {
    "embedded": f"{_ORDEALS}embedded",
    "distributed": f"{_ORDEALS}distributed",
    "composed": f"{_ORDEALS}composed",
    "clock_embedded": f"{_ORDEALS}a_clock_that_jumps[embedded]",
    "clock_distributed": f"{_ORDEALS}a_clock_that_jumps[distributed]",
    "clock_composed": f"{_ORDEALS}a_clock_that_jumps_in_containers",
    "disk_embedded": f"{_ORDEALS}a_disk_in_trouble[embedded]",
    "disk_distributed": f"{_ORDEALS}a_disk_in_trouble[distributed]",
    "disk_composed": f"{_ORDEALS}a_disk_in_trouble_in_containers",
    "memory_embedded": f"{_ORDEALS}memory_that_runs_out[embedded]",
    "memory_distributed": f"{_ORDEALS}memory_that_runs_out[distributed]",
    "pressed_embedded": _PRESSED,
    "pressed_distributed": f"{_PRESSED}_with_celery",
    "pressed_composed": f"{_PRESSED}_in_containers",
}
MUST_BE_ZERO = ("false_verdicts", "internal_errors", "unanswered", "lost_or_doubled", "left_over")
SAVED_EVERY_S = 10.0


class Record:
    """The figures of all set-ups, those of earlier runs among them."""

    def __init__(self) -> None:
        file = RESULTS / "nothing_lost.json"
        known = json.loads(file.read_text()) if file.exists() else {"figures": {}, "details": {}}
        self._figures: dict[str, float] = known["figures"]
        self._details: dict[str, dict[str, object]] = known["details"]

    def take(self, name: str, file: Path, count: int, *, quiet: bool) -> bool:
        """The figures of one set-up take the place of its earlier ones; True when they are as they must be."""
        found = json.loads(file.read_text())
        by_victim = found.pop("by_victim")
        own = {f"{name}_{figure}": value for figure, value in found.items()}
        others = {figure: value for figure, value in self._figures.items() if not _is_of(figure, name)}
        self._figures = others | own
        self._details.setdefault("killed", {})[name] = by_victim
        self._details.setdefault("run", {})[name] = f"{time.strftime('%Y-%m-%d', time.gmtime())}, {count} asked for"
        goals: dict[str, tuple[str, float]] = {figure: ("<=", 0) for figure in self._figures if _must_be_zero(figure)}
        save("nothing_lost", self._figures, goals, details=self._details, quiet=quiet)
        return all(value == 0 for figure, value in own.items() if _must_be_zero(figure))


def _is_of(figure: str, name: str) -> bool:
    """Whether a figure is one of this set-up, and not of one whose name is longer."""
    return max((each for each in SET_UPS if figure.startswith(f"{each}_")), key=len, default=None) == name


def _must_be_zero(figure: str) -> bool:
    # What is pressed is also hit by signals that its own mistakes could have sent: those are ours, without a reward.
    ours_to_tell = figure.startswith("pressed_") and figure.endswith("_internal_errors")
    return figure.endswith(MUST_BE_ZERO) and not ours_to_tell


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    failed = []
    record = Record()
    for name in sys.argv[2:] or SET_UPS:
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "ASSAY_SOAK": str(count), "ASSAY_SOAK_RESULTS": folder}
            command = [sys.executable, "-m", "pytest", "-s", SET_UPS[name]]
            file, taken_at_ns, right, over = Path(folder, f"{name}.json"), 0, False, False
            with subprocess.Popen(command, cwd=ROOT, env=environment) as testing:
                while not over:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        testing.wait(SAVED_EVERY_S)
                        over = True
                    if file.exists() and file.stat().st_mtime_ns != taken_at_ns:
                        taken_at_ns = file.stat().st_mtime_ns
                        right = record.take(name, file, count, quiet=not over)
            if not taken_at_ns:
                print(f"{name} could not be run here, or ended before its figures", file=sys.stderr)
            if testing.returncode != 0 or not right:
                failed.append(name)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
