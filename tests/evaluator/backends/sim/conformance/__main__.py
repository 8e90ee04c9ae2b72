"""Makes and compares recordings: `python -m conformance bundle FOLDER | keep FOLDER RESULTS | compare [WORDS]`.

`bundle` writes the forms that the recording lacks, for `scripts/record_conformance.py` to run on a machine with a
GPU; `keep` adds what that wrote to the recording; `compare` runs every form, or those whose text has the words, on
the simulator and prints the report. Without `h200.json.xz` and `h200.bin.xz` a recording is begun anew.
"""

import os
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from conformance import bundle, simulation
from conformance.comparison import Comparison
from conformance.forms import Form
from conformance.modules import Kernel, kernels
from conformance.recording import FILE, Recording
from conformance.report import Report
from conformance.suite import forms

from evaluator.pipeline.toolbox import Toolbox
from evaluator.settings import MachineSettings

_DATA = Path(__file__).parents[5] / ".assay" / "tests"
_FORMS_EACH = 48


def _compare(words: str) -> Report:
    recording = Recording.load()
    report = Report(recording.machine)
    gpu: dict[Form, np.ndarray] = {}
    reasons: defaultdict[str, list[Form]] = defaultdict(list)
    for form in (form for form in forms() if words in form.text):
        found = recording.results(form)
        if isinstance(found, str):
            reasons[found].append(form)
        else:
            gpu[form] = found
    for reason, left in reasons.items():
        report.leave_out(left, reason)
    runs, lacks = simulation.known(gpu)
    report.leave_out(lacks, "the simulator lacks the instruction or the modifier")
    simulator = Toolbox(MachineSettings(_DATA)).simulator

    def simulated(one: Kernel) -> list[tuple[Form, np.ndarray]]:
        return list(simulation.simulated(simulator, [place.form for place in one.places], len(one.places)))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for found_forms in pool.map(simulated, kernels(runs, _FORMS_EACH)):
            for form, words_found in found_forms:
                report.add(Comparison(form, gpu[form], words_found))
    return report


def _kept() -> Recording | None:
    return Recording.load() if FILE.with_suffix(".bin.xz").exists() else None


def main() -> None:
    """Do what the first argument says."""
    command, *arguments = sys.argv[1:]
    if command == "bundle":
        kept = _kept()
        wanted = [form for form in forms() if kept is None or isinstance(kept.results(form), str)]
        print(bundle.write(wanted, Path(arguments[0]), os.cpu_count() or 1))
    elif command == "keep":
        bundle.keep(Path(arguments[0]), Path(arguments[1]), _kept()).save()
    elif command == "compare":
        print(_compare(" ".join(arguments)).text())
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
