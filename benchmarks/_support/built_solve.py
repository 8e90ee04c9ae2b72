"""A file of the form `solve` as its author means it: compiled by nvcc into a shared library that is called.

What is called how is found as lifting finds it (`called_as`), so that both forms of a file get the same arguments.
"""

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import cxxfilt
import numpy as np
from elftools.elf.elffile import ELFFile
from numpy.typing import NDArray

from benchmarks._support import call_solve
from common.contract import Settings
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.arrays import NumpyRng, numpy_dtype
from evaluator.problems.problem import Problem, Sizes
from evaluator.stages.compile.toolchain import Toolchain
from evaluator.stages.lift.binding import Binding, HostParameter, HostSignature, bind, call_values
from evaluator.stages.lift.dialects import EntryFunction, entry_function
from evaluator.stages.lift.host_program import HostBuild, form_of_entry
from evaluator.stages.verify.comparison import compare_output
from evaluator.stages.verify.trials import PlannedTrial, plan_trials

_BUILD_S: Final = 200.0
_CALLS_S: Final = 60
"""Of all calls, PyTorch's import and the first context included."""
_CUDA_ERROR: Final = re.compile(r"(CUDA error: [^\n]*)")


class BuiltError(Exception):
    """The built form has no answer to be compared; `status` is the verdict's that says the same."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class SolveCall:
    """How the entry function of a file is called for a problem."""

    entry: EntryFunction
    binding: Binding
    parameters: tuple[HostParameter, ...]

    def values(self, problem: Problem, sizes: Sizes, scalars: Mapping[str, float]) -> list[str]:
        """What is passed, as `call_solve.c_argument` takes it. Raises LiftRefusedError."""
        return call_values(problem, self.binding.names, self.parameters, sizes, scalars)


def called_as(source: str, problem: Problem, toolbox: Toolbox, arch: str) -> SolveCall:
    """Raises BuiltError where there is no entry function; LiftRefusedError, InfrastructureError."""
    entry = entry_function(source)
    if entry is None:
        raise BuiltError("invalid_submission", "There is no function that is to be called.")
    form = form_of_entry(source, entry)
    host = HostBuild(source, form, Settings(), arch, toolbox.toolchain, toolbox.sandbox, toolbox.cache)
    signature = host.program().signature
    assert isinstance(signature, HostSignature)
    return SolveCall(entry, bind(problem, entry, signature), tuple(signature.parameters))


def shared_library(source: str, name: str, toolchain: Toolchain, arch: str, folder: Path) -> Path:
    """Compile and link it, as `NAME.so` in `folder`. Raises BuiltError."""
    text, library = folder / f"{name}.cu", folder / f"{name}.so"
    text.write_text(source)
    # Some sites bring one along that declares the function.
    (folder / "solve.h").touch()
    options = ["-O3", "-std=c++17", f"-arch={arch}", "-shared", "-Xcompiler", "-fPIC"]
    command = [
        *map(str, (toolchain.nvcc, "-ccbin", toolchain.host_compiler)),
        *options,
        "-o",
        str(library),
        str(text),
    ]
    try:
        built = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_BUILD_S)
    except subprocess.TimeoutExpired as late:
        raise BuiltError("timeout", f"not compiled in {_BUILD_S:g} s") from late
    if built.returncode:
        raise BuiltError("compile_error", built.stderr[-2000:])
    return library


def judged_as_built(
    call: SolveCall,
    library: Path,
    problem: Problem,
    folder: Path,
    seed: int,
    turn: AbstractContextManager[Any],
    gpu: str,
) -> tuple[str, str]:
    """Status and message of the library's answers, at trials such as a quick verification has.

    `folder`: an empty one, for what goes to the child and comes back. `turn`: entered while the child has `gpu`, a
    UUID. Raises BuiltError where the child fails, InfrastructureError, LiftRefusedError.
    """
    generator = np.random.default_rng(seed)
    trials = plan_trials(problem, Settings(verification="quick", timing=False), generator)
    rng = NumpyRng(generator)
    drawn = [trial.distribution.draw(rng, trial.sizes) for trial in trials]
    task = _task(call, library, problem, trials)
    (folder / "task.json").write_text(json.dumps(task))
    for number, inputs in enumerate(drawn):
        for at, tensor in enumerate(problem.inputs):
            np.ascontiguousarray(inputs[tensor.name]).tofile(folder / f"{number}.{at}.in")
    with turn:
        changed = _called(folder, gpu)
    if changed:
        names = ", ".join(problem.inputs[at].name for at in changed)
        return "rejected", f"it changed its input {names}"
    for number, (trial, inputs) in enumerate(zip(trials, drawn, strict=True)):
        expected = problem.oracle(inputs, trial.sizes, **trial.scalars)
        for at, tensor in enumerate(problem.outputs, len(problem.inputs)):
            actual = _read(folder / f"{number}.{at}.out", tensor.dtype, tensor.shape_at(trial.sizes))
            found = compare_output(
                tensor.name, actual, expected[tensor.name], trial.tolerance, call_solve.UNWRITTEN
            ).mismatch
            if found is not None:
                return "incorrect", f"{tensor.name} at {trial.place} ({trial.distribution.name}): {found.pattern}"
    return "passed", ""


def _task(call: SolveCall, library: Path, problem: Problem, trials: Sequence[PlannedTrial]) -> dict[str, Any]:
    tensors = (*problem.inputs, *problem.outputs)
    names = [tensor.name for tensor in tensors]
    return {
        "library": str(library),
        "entry": symbol_of(library, call.entry.name),
        "limit_s": _CALLS_S,
        "inputs": len(problem.inputs),
        "parameters": [(one.kind, one.bytes) for one in call.parameters],
        "initial": [
            (names.index(source) if source else None, names.index(target)) for source, target in call.binding.initial
        ],
        "calls": [
            {
                "values": call.values(problem, trial.sizes, trial.scalars),
                "bytes": [math.prod(one.shape_at(trial.sizes)) * one.dtype.size_bytes for one in tensors],
            }
            for trial in trials
        ],
    }


def symbol_of(library: Path, name: str) -> str:
    """By which the library has the function: a declaration that was left out may have made it one of C's."""
    with library.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".dynsym")
        names = [one.name for one in symbols.iter_symbols() if one["st_shndx"] != "SHN_UNDEF"]
    mangled = (one for one in names if cxxfilt.demangle(one).partition("(")[0] == name)
    return name if name in names else next(mangled, name)


def _called(folder: Path, gpu: str) -> list[int]:
    """Which inputs the calls changed, by number. Raises BuiltError."""
    try:
        run = subprocess.run(
            [sys.executable, call_solve.__file__, str(folder)],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": gpu},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_CALLS_S + 30,
        )
    except subprocess.TimeoutExpired as late:
        raise BuiltError("timeout", f"its calls were not over in {_CALLS_S} s") from late
    result = folder / "result.json"
    if run.returncode == 0 and result.exists():
        changed: list[int] = json.loads(result.read_text())["changed"]
        return changed
    if run.returncode == -14:  # SIGALRM
        raise BuiltError("timeout", f"its calls were not over in {_CALLS_S} s")
    said = _CUDA_ERROR.search(run.stderr)
    if "OutOfMemoryError" in run.stderr or (said and "out of memory" in said[1]):
        raise BuiltError("out_of_memory", "the GPU's memory was full")
    if said or run.returncode < 0:
        raise BuiltError(
            "runtime_error",
            said[1] if said else f"its process ended by signal {-run.returncode}: {run.stderr[-1500:]}",
        )
    raise BuiltError("not_done", f"its process ended ({run.returncode}): {run.stderr[-600:]}")


def _read(file: Path, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    return np.fromfile(file, np.uint8).view(numpy_dtype(dtype)).reshape(shape)
