"""Assembles modules with `ptxas`, and finds the forms that it refuses."""

import re
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from conformance.forms import Form
from conformance.modules import Kernel, kernel, kernels

_ERROR = re.compile(r"line (\d+); (?:error|fatal)\s*: (.*)")
TARGET = "sm_90"


@dataclass(frozen=True)
class Assembled:
    """One kernel's cubin."""

    kernel: Kernel
    cubin: bytes


def version(ptxas: str = "ptxas") -> str:
    """What the assembler calls itself: its last line that names a release."""
    lines = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()
    return next(line for line in reversed(lines) if "release" in line)


def assembled(forms: Sequence[Form], most: int, workers: int) -> tuple[list[Assembled], dict[Form, str]]:
    """Kernels of at most so many forms, and for what was refused the assembler's words."""
    refused: dict[Form, str] = {}
    with ThreadPoolExecutor(workers) as pool:
        done = list(pool.map(lambda one: _without_refused(one, refused), kernels(forms, most)))
    return [one for one in done if one is not None], refused


def _without_refused(one: Kernel, refused: dict[Form, str]) -> Assembled | None:
    while True:
        found = _assemble(one)
        if isinstance(found, bytes):
            return Assembled(one, found)
        refused |= found
        rest = [place.form for place in one.places if place.form not in found]
        if not rest:
            return None
        one = kernel(rest)


def _assemble(one: Kernel) -> bytes | dict[Form, str]:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "k.ptx"), Path(folder, "k.cubin")
        source.write_text(one.ptx())
        command = ["ptxas", f"-arch={TARGET}", "-o", str(target), str(source)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if ran.returncode == 0:
            return target.read_bytes()
    found: dict[Form, str] = {}
    for number, message in _ERROR.findall(ran.stderr):
        form = one.form_at(int(number))
        if form is not None:
            found.setdefault(form, message)
    if found:
        return found
    if len(one.places) == 1:
        return {one.places[0].form: ran.stderr.strip() or "no message"}
    return {form: message for place in one.places for form, message in _alone(place.form)}


def _alone(form: Form) -> list[tuple[Form, str]]:
    found = _assemble(kernel([form]))
    return [] if isinstance(found, bytes) else list(found.items())
