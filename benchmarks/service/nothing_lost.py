"""What becomes of evaluations while everything that can be killed is killed: tests/soak in its long form, counted.

    python benchmarks/service/nothing_lost.py [EVALUATIONS] [SET_UP ...]

`EVALUATIONS` for each set-up, 1000 unless said. Set-ups are `embedded`, `distributed`, `composed` (needs what
`make e2e` builds), `clock`, `disk` and `false_verdicts`: there the processes of each evaluation are hit by every
signal, and each verdict is compared with the undisturbed one.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks._support.record import save

ROOT = Path(__file__).parents[2]
SET_UPS = ("embedded", "distributed", "composed", "clock", "disk", "false_verdicts")
MUST_BE_ZERO = ("false_verdicts", "unanswered", "lost_or_doubled", "left_over")


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    chosen = tuple(sys.argv[2:]) or SET_UPS
    figures: dict[str, float] = {}
    goals: dict[str, tuple[str, float]] = {}
    killed: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "ASSAY_SOAK": str(count), "ASSAY_SOAK_RESULTS": folder}
        command = [sys.executable, "-m", "pytest", "tests/soak", "-s", "-k", " or ".join(chosen)]
        tested = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        for name in chosen:
            file = Path(folder, f"{name}.json")
            if not file.exists():
                print(f"{name} could not be run here, or ended before its figures", file=sys.stderr)
                continue
            found = json.loads(file.read_text())
            killed[name] = found.pop("by_victim")
            figures |= {f"{name}_{figure}": value for figure, value in found.items()}
            goals |= {f"{name}_{figure}": ("<=", 0) for figure in MUST_BE_ZERO if figure in found}
            if name != "false_verdicts":  # there the simulator is hit by the signals of its own mistakes too
                goals[f"{name}_internal_errors"] = ("<=", 0)
    if not figures:
        return 1
    return int(not save("nothing_lost", figures, goals, details={"killed": killed}) or tested != 0)


if __name__ == "__main__":
    sys.exit(main())
