"""Writes what `scripts/record_conformance.py` runs on a GPU, and makes a recording of what it found."""

import hashlib
import json
import lzma
from collections.abc import Mapping, Sequence
from pathlib import Path

from conformance import assembly
from conformance.forms import Form, form_of
from conformance.modules import POISON, kernel
from conformance.recording import Recording

_FORMS_EACH = 24


def write(wanted: Sequence[Form], folder: Path, workers: int) -> dict[str, int]:
    """Assemble forms into a folder; how many there are and how many were refused."""
    folder.mkdir(parents=True)
    done, refused = assembly.assembled(wanted, _FORMS_EACH, workers)
    rows, inputs = [], []
    at = 0
    for number, one in enumerate(done):
        (folder / f"{number}.cubin").write_bytes(one.cubin)
        data = one.kernel.inputs()
        launch = one.kernel.launch
        rows.append(
            {
                "forms": [place.form.name for place in one.kernel.places],
                "inputs_at": at,
                "input_bytes": len(data),
                "result_bytes": one.kernel.result_bytes,
                "blocks": launch.blocks,
                "block_threads": launch.block_threads,
            }
        )
        inputs.append(data)
        at += len(data)
    joined = b"".join(inputs)
    (folder / "inputs.xz").write_bytes(lzma.compress(joined, preset=1))
    description = {
        "ptxas": assembly.version(),
        "target": assembly.TARGET,
        "poison": POISON,
        "digest": hashlib.sha256(joined + json.dumps(rows).encode()).hexdigest(),
        "kernels": rows,
        "refused": {form.name: message for form, message in refused.items()},
    }
    (folder / "bundle.json").write_text(json.dumps(description))
    return {"forms": len(wanted), "refused": len(refused), "kernels": len(rows)}


def keep(folder: Path, results: Path, recording: Recording | None) -> Recording:
    """Add a bundle's results to a recording of the same machine, or begin one."""
    description = json.loads((folder / "bundle.json").read_text())
    facts = json.loads((results / "results.json").read_text())
    if facts["bundle"] != description["digest"]:
        raise ValueError("the results are of another bundle")
    memory = lzma.decompress((results / "results.xz").read_bytes())
    failed = {int(number): reason for number, reason in facts["failed"].items()}
    machine = {
        "gpu": facts["gpu"],
        "driver": facts["driver"],
        "compiler": description["ptxas"],
        "target": description["target"],
        "date": facts["date"],
    }
    recording = Recording.empty(machine) if recording is None else recording
    if _without_date(machine) != _without_date(recording.machine):
        raise ValueError(f"the recording is of another machine or compiler: {recording.machine}; record all anew")
    for name, message in description["refused"].items():
        recording.refuse(form_of(name), message)
    at = 0
    for number, row in enumerate(description["kernels"]):
        one = kernel([form_of(name) for name in row["forms"]])
        for form, words in one.results(memory[at : at + row["result_bytes"]]):
            if number in failed:
                recording.refuse(form, failed[number])
            else:
                recording.add(form, words)
        at += row["result_bytes"]
    return recording


def _without_date(machine: Mapping[str, str]) -> dict[str, str]:
    return {fact: value for fact, value in machine.items() if fact != "date"}
