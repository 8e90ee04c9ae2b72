"""A solution in KernelBench's form as host code: the C++ that it compiles, and what its forward passes to that."""

import json
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, StrictInt, ValidationError

from common.contract import Settings, Status, form_of
from common.wire import Wire
from evaluator.foreign.learning import origins
from evaluator.problems.problem import Problem
from evaluator.python_command import own_python, this_python
from evaluator.sandbox.sandbox import Job, Limits, Sandbox
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.calls.process_calls import ProcessCalls
from evaluator.stages.lift.extension.headers import FLAGS
from evaluator.stages.lift.host_runs import HostCall, RecordingSandbox, bytes_of_tensors, ending_of, run_untrusted
from evaluator.stages.lift.kernelbench.joined_text import CompiledText, joined
from evaluator.stages.lift.kernelbench.python_syntax import NotPythonError
from evaluator.stages.lift.lifting import BoundHostCode, HostCode, form_of_extension
from evaluator.stages.lift.target_device import device_for_python

_TRACE_S: Final = 20.0
_TRACE_CPU_S: Final = 5.0
_OUTPUT: Final = "found.json"
_MAX_FOUND_BYTES: Final = 8 << 20
_PACKAGE: Final = Path(__file__).parents[3]
_FAST_MATH: Final = re.compile(r"--?use_fast_math")
_UNDEFINES: Final = re.compile(r"-U(__CUDA_NO_\w+)")
_UNSUPPORTED: Final = "It was not judged, so there is no reward."

_Line = Annotated[str, Field(max_length=4000, pattern=r"^[a-z]{1,12}(?: [0-9a-fA-Fin.+-]+)*$")]


class _Refusal(Wire):
    why: Literal["operator", "reads", "contents", "other", "misfit", "syntax", "error"]
    what: Annotated[str, Field(max_length=300)]
    line: StrictInt


class _Call(Wire):
    lines: Annotated[tuple[_Line, ...], Field(max_length=8000)] = ()
    refusal: _Refusal | None = None


class _Found(Wire):
    modules: Annotated[tuple[CompiledText, ...], Field(max_length=256)]
    calls: tuple[_Call, ...]
    refusal: _Refusal | None = None


class Solution:
    """One text with `ModelNew`, for one problem."""

    def __init__(self, source: str, problem: Problem, settings: Settings, sandbox: Sandbox, arch: str) -> None:
        """`arch`: of the device that it sees, such as `sm_80`."""
        self.source, self.problem, self.settings = source, problem, settings
        self.sandbox, self.arch = RecordingSandbox(sandbox), arch

    def host_code(self) -> HostCode:
        """Its C++ and its calls. Raises LiftRefusedError, HeaderNotCoveredError, InfrastructureError."""
        typical = ProcessCalls(self.problem.example_sizes[0], {})
        found = self._run([typical])
        (call,) = found.calls
        if not found.modules:
            if call.refusal is not None:
                raise _refused(call.refusal)
            raise LiftRefusedError(
                Status.UNSUPPORTED,
                "ModelNew compiles no CUDA C++: there is no `load_inline` in the text.",
                f"Compile kernels with torch.utils.cpp_extension.load_inline. {_UNSUPPORTED}",
            )
        if call.refusal is not None:
            raise _refused(call.refusal)
        text = joined(self.source, found.modules)
        flags = _flags(found.modules)
        called = dict.fromkeys(
            bytes.fromhex(line.split()[1]).decode(errors="replace") for line in call.lines if line.startswith("call ")
        )
        said = f"ModelNew.forward, which calls {', '.join(called)}, bound as it passes them"
        bound = BoundHostCode(said, lambda processes: self._calls_at(processes, found.modules), returns=True)
        form = form_of_extension(text, "ModelNew", flags)
        return HostCode(self.source, text, form, lambda _, __: bound, self.sandbox)

    def compiled_texts(self) -> tuple[CompiledText, ...]:
        """What it compiles, as far as it can be followed without PyTorch's operators.

        Raises LiftRefusedError, InfrastructureError.
        """
        return self._run_as_far_as_it_goes([ProcessCalls(self.problem.example_sizes[0], {})]).modules

    def _calls_at(
        self, processes: Sequence[ProcessCalls], compiled: Sequence[CompiledText]
    ) -> list[HostCall | LiftRefusedError]:
        made: list[HostCall | LiftRefusedError] = []
        try:
            found = self._run(processes)
        except LiftRefusedError as refusal:
            return [refusal]
        if not {one.meaning for one in found.modules} <= {one.meaning for one in compiled}:
            return [
                LiftRefusedError(
                    Status.UNSUPPORTED,
                    "ModelNew compiles other text, or with other flags, at other sizes.",
                    f"Pass sizes as arguments. {_UNSUPPORTED}",
                )
            ]
        for process, call in zip(processes, found.calls, strict=True):
            if call.refusal is not None:
                return [*made, _refused(call.refusal)]
            made.append(HostCall(bytes_of_tensors(self.problem, *process.sizes_of_sets), call.lines))
        return made

    def _run(self, processes: Sequence[ProcessCalls]) -> _Found:
        """What it passes on in each of these. Raises LiftRefusedError, InfrastructureError."""
        found = self._run_as_far_as_it_goes(processes)
        if found.refusal is not None:
            raise _refused(found.refusal)
        if len(found.calls) != len(processes):
            raise _forged()
        return found

    def _run_as_far_as_it_goes(self, processes: Sequence[ProcessCalls]) -> _Found:
        files = {"solution.py": self.source.encode()}
        if (reference := reference_of(self.problem)) is not None:
            files["reference.py"] = reference
        request = {"calls": [self._asked(process) for process in processes], "device": device_for_python(self.arch)}
        limits = Limits(
            wall_s=_TRACE_S,
            cpu_s=_TRACE_CPU_S,
            memory_bytes=self.settings.memory_bytes,
            file_bytes=_MAX_FOUND_BYTES,
            output_bytes=1 << 20,
        )
        command = tuple(own_python("evaluator.stages.lift.kernelbench.inside.__main__"))
        files["request.json"] = json.dumps(request).encode()
        job = Job(command, files=files, collect=(_OUTPUT,), readable=_readable(), limits=limits)
        control = Job(tuple(this_python("-c", "pass")), readable=_readable())
        run = run_untrusted(self.sandbox, job, control)
        try:
            found = _Found.model_validate_json(run.files.get(_OUTPUT, b""))
        except (ValidationError, ValueError):
            spent = (run.signal, *run.own_signals)
            raise LiftRefusedError(
                Status.TIMEOUT if run.timed_out or signal.SIGXCPU in spent else Status.RUNTIME_ERROR,
                f"The Python text of the solution did not come to its end ({ending_of(run)}).",
                "Define ModelNew, and leave the rest to forward: no exit, no other processes, no endless loop.",
            ) from None
        if any(len(one.lines) != len(one.sources) or one.cpp > len(one.sources) for one in found.modules):
            raise _forged()
        return found

    def _asked(self, process: ProcessCalls) -> list[dict[str, object]]:
        """The calls of a process, those at the same sizes together: each is of a ModelNew of its own."""
        asked: list[dict[str, object]] = []
        tensors = len(self.problem.inputs) + len(self.problem.outputs)
        for sizes, scalars, sets in process.of_each_sizes:
            numbers = {one.name: scalars.get(one.name, one.value) for one in self.problem.scalars}
            inputs = [
                {
                    "name": one.name,
                    "shape": one.shape_at(sizes),
                    "type": "bool" if one.is_bool else str(one.dtype),
                    "changed": one.changed,
                }
                for one in self.problem.inputs
            ]
            firsts = [tensors * each_set for each_set in sets]
            asked.append({"sizes": dict(sizes), "scalars": numbers, "inputs": inputs, "first_buffers": firsts})
        return asked


def reference_of(problem: Problem) -> bytes | None:
    """The file that states the problem, where it has KernelBench's form."""
    if not problem.origin:
        return None
    text = origins.load(problem.origin).text
    return text if form_of(text) == "kernelbench" else None


def _readable() -> tuple[Path, ...]:
    """The interpreter, and this package."""
    found = dict.fromkeys(
        (Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parents[1], _PACKAGE)
    )
    return tuple(path for path in found if path.is_dir() and path != Path("/"))


def _forged() -> LiftRefusedError:
    return LiftRefusedError(
        Status.REJECTED,
        "What was recorded of forward is not what the recorder writes: the solution has written it itself.",
        "Leave the files of the grader alone.",
    )


def _refused(refusal: _Refusal) -> LiftRefusedError:
    where = f"line {refusal.line}: " if refusal.line else ""
    match refusal.why:
        case "operator":
            return LiftRefusedError(
                Status.UNSUPPORTED,
                f"{where}ModelNew calls PyTorch's operator {refusal.what}, which computes something of its own. It "
                "is only recorded here.",
                "Let forward pass tensors and numbers to functions that it compiles, and do all else there. "
                + _UNSUPPORTED,
            )
        case "reads":
            return LiftRefusedError(
                Status.UNSUPPORTED,
                f"{where}ModelNew reads the contents of a tensor ({refusal.what}). It is only recorded, so there are "
                "none.",
                f"Leave the data on the device. {_UNSUPPORTED}",
            )
        case "contents":
            return LiftRefusedError(
                Status.UNSUPPORTED,
                f"{where}ModelNew passes on {refusal.what}. Only the problem's tensors can be recorded.",
                "Take what `Model.forward` takes, and make parameters as `Model` does: what they hold is the "
                f'problem\'s. A test of the module belongs behind `if __name__ == "__main__":`. {_UNSUPPORTED}',
            )
        case "other":
            return LiftRefusedError(
                Status.UNSUPPORTED,
                f"{where}ModelNew {refusal.what}, which cannot be recorded.",
                f"docs/lifting.md says what can. {_UNSUPPORTED}",
            )
        case "misfit":
            return LiftRefusedError(
                Status.INVALID_SUBMISSION,
                f"{where}The solution does not fit the problem: {refusal.what}.",
                "Define ModelNew with the arguments of the reference's Model.",
            )
        case "syntax":
            return NotPythonError(refusal.line, refusal.what)
    return LiftRefusedError(Status.RUNTIME_ERROR, f"{where}ModelNew fails: {refusal.what}.", _hint_on(refusal.what))


def _hint_on(error: str) -> str:
    """What to do about an exception of the solution's own."""
    if "Module.__init__() call" in error:
        return "Begin its `__init__` with `super().__init__()`, as PyTorch wants it."
    if "module has no attribute" in error:
        return "Name in `functions` of `load_inline` each function that forward calls."
    if "name 'load_inline' is not defined" in error:
        return "Import it: `from torch.utils.cpp_extension import load_inline`."
    return "It must be made and called as Model is."


def _flags(modules: Sequence[CompiledText]) -> tuple[str, ...]:
    """Of those that the solution gives nvcc, the ones that change what a kernel means."""
    asked = [flag for module in modules for flag in module.flags]
    undefined = {f"-D{match[1]}" for flag in asked if (match := _UNDEFINES.fullmatch(flag))}
    fast = ("--use_fast_math",) if any(_FAST_MATH.fullmatch(flag) for flag in asked) else ()
    return (*(flag for flag in FLAGS if flag not in undefined), *fast)
