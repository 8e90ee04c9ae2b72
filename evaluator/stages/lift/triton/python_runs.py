"""Running Python that nobody trusts: in a sandbox, twice for each call, and what each way of ending means."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Final, Literal

from pydantic import Field, StrictInt, TypeAdapter, ValidationError

from common.contract import Settings, Status
from common.wire import Wire
from evaluator.errors import InfrastructureError
from evaluator.foreign.zygote import python_path, readable_packages
from evaluator.python_command import last_words, own_python
from evaluator.sandbox.sandbox import Job, JobResult, Limits, Sandbox
from evaluator.stages.compile.toolchain import Toolchain
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.host_runs import (
    RunsJobs,
    ending_of,
    endings_in,
    run_untrusted,
    signals_in,
    took_too_much_memory,
)
from evaluator.stages.lift.kernelbench.python_syntax import NotPythonError
from evaluator.stages.lift.recording import MAX_RECORDING_BYTES, TENSORS_OF_CALLS, Recording, seeds_of_both
from evaluator.stages.lift.target_device import device_for_python
from evaluator.stages.lift.triton.inside.record import SOURCE
from evaluator.stages.lift.triton.kernel_modules import TritonKernel, not_triton

_PROGRAM: Final = "evaluator.stages.lift.triton.inside.record"
_RUN_S: Final = 3.0
"""Processor seconds of one call, without what compiling takes: the Python launches nothing in truth."""
_ASLEEP_S: Final = 20.0
"""For one that sleeps instead."""
_MAX_AT_ONCE: Final = 32
"""Calls in one sandbox; each is recorded twice."""
_MAX_KERNELS_BYTES: Final = 128 << 20
_MOST_PROCESSES: Final = 24
"""And threads. The recorder is two, and Triton asks ptxas for its version; a hundred of such size are slow to end."""
_START_S: Final = 20.0
"""To import Triton, on a machine with a cold disk."""
_ENDING: Final = re.compile(rb"^(\d{1,6}) (exit|signal|late|slow)(?: (\d{1,3}))?$", re.MULTILINE)


class _Failure(Wire):
    kind: Literal[
        "reads_data", "not_recorded", "compile", "resources", "syntax", "no_module", "memory", "result", "exit",
        "exception", "misfit",
    ]  # fmt: skip
    line: StrictInt | None
    said: Annotated[str, Field(max_length=1024)]


class _Written(Wire):
    """What one call leaves: one of the two."""

    recording: Recording | None = None
    failure: _Failure | None = None


@dataclass(frozen=True)
class RecordedPair:
    """Both recordings of one call, whose launches name kernels by their ids."""

    first: Recording
    second: Recording
    kernels: Mapping[str, TritonKernel]


def record_python(
    files: Mapping[str, bytes],
    entry: str,
    calls: Sequence[Mapping[str, Any]],
    arch: str,
    settings: Settings,
    toolchain: Toolchain,
    sandbox: RunsJobs,
) -> list[RecordedPair | LiftRefusedError]:
    """Both recordings of each call, up to the first that cannot be had, whose refusal is the last.

    `files`: the submission as SOURCE, and what lies beside it. `calls` are those of `python_call`.
    Raises InfrastructureError.
    """
    found: list[RecordedPair | LiftRefusedError] = []
    for start in range(0, len(calls), _MAX_AT_ONCE):
        batch = calls[start : start + _MAX_AT_ONCE]
        found += _Batch(files, entry, batch, arch, settings, toolchain, sandbox).results()
        if isinstance(found[-1], LiftRefusedError):
            break
    return found


class _Batch:
    def __init__(
        self,
        files: Mapping[str, bytes],
        entry: str,
        calls: Sequence[Mapping[str, Any]],
        arch: str,
        settings: Settings,
        toolchain: Toolchain,
        sandbox: RunsJobs,
    ) -> None:
        self.calls, self.entry, self.settings = calls, entry, settings
        twice = [{**call, "seed": seed} for call in calls for seed in seeds_of_both()]
        job = _job(files, entry, twice, arch, settings, toolchain)
        self.sandbox, self.control = sandbox, _job(files, entry, (), arch, settings, toolchain)
        nothing = Job((*job.argv[:1], "-c", "pass"), readable=job.readable)
        self.run = run_untrusted(sandbox, job, nothing, signals_in(_ENDING))
        self.endings = endings_in(_ENDING, self.run)

    @cached_property
    def kernels(self) -> Mapping[str, TritonKernel]:
        try:
            return TypeAdapter(dict[str, TritonKernel]).validate_json(self.run.files.get("kernels.json", b""))
        except (ValidationError, ValueError, RecursionError):
            raise not_triton("the kernels cannot be read") from None

    def results(self) -> list[RecordedPair | LiftRefusedError]:
        found: list[RecordedPair | LiftRefusedError] = []
        for number in range(len(self.calls)):
            try:
                pair = self._one(2 * number), self._one(2 * number + 1)
                ids = {step for one in pair for step in launched(one)}
                if not ids <= self.kernels.keys():
                    raise not_triton("a launch names a kernel that is not there")
                found.append(RecordedPair(*pair, {one: self.kernels[one] for one in ids}))
            except LiftRefusedError as refusal:
                found.append(refusal)
                break
        return found

    def _one(self, number: int) -> Recording:
        written = self.run.files.get(f"recording.{number}")
        how, what = self.endings.get(number, ("none", 0))
        if how != "exit" or what != 0 or written is None:
            raise self._refusal(how, what)
        try:
            if len(written) > MAX_RECORDING_BYTES:
                raise ValueError
            found = _Written.model_validate_json(written)
        except (ValidationError, ValueError, RecursionError):
            raise not_triton("a recording cannot be read") from None
        if found.failure is not None or found.recording is None:
            raise _of_failure(found.failure, self.entry)
        return found.recording

    def _refusal(self, how: str, what: int) -> LiftRefusedError:
        """What it means that a call left no recording. Raises InfrastructureError."""
        run, name = self.run, self.entry
        if not self.endings:
            _check_works(self.sandbox.run(self.control))
        if how == "slow" or (how == "none" and run.timed_out):
            return LiftRefusedError(
                Status.TIMEOUT,
                f"Compiling the Triton kernels took longer than {self.settings.compile_timeout_s:g} s.",
                "Look for `tl.static_range` over many values, large tiles, and constants that differ at every size.",
            )
        if how == "late":
            return LiftRefusedError(
                Status.TIMEOUT,
                f"The Python took longer than {_RUN_S:g} s for {len(TENSORS_OF_CALLS)} calls of `{name}`, which "
                "compute nothing.",
                "Look for a loop that waits for the device, or does the work on the host.",
            )
        if took_too_much_memory(run, how, what):
            return LiftRefusedError(
                Status.OUT_OF_MEMORY,
                f"The Python took more than {self.settings.memory_bytes >> 20} MiB of memory on the host.",
                "Keep the data on the device, and tiles small.",
            )
        if run.met_limit:
            said = run.limit_hit or "it wrote too much"
            return LiftRefusedError(
                Status.RUNTIME_ERROR,
                f"The Python met a limit while `{name}` was called: {said}.",
                "Launch kernels, and leave files, processes and threads alone.",
            )
        if how in ("exit", "signal"):
            ended = f"exit code {what}" if how == "exit" else f"signal {what}"
            return LiftRefusedError(
                Status.RUNTIME_ERROR,
                f"The Python ended its process ({ended}) before `{name}` returned.",
                "Return from it: no os._exit, no abort, and no signals.",
            )
        return LiftRefusedError(
            Status.RUNTIME_ERROR,
            f"The Python ended the process that calls `{name}` ({ending_of(run)}).",
            "Send no signals, and end no processes.",
        )


def check_recorder(toolchain: Toolchain, sandbox: Sandbox) -> None:
    """Raise where Triton does not work in the sandbox: LiftRefusedError, InfrastructureError."""
    _check_works(sandbox.run(_job({SOURCE: b""}, "run", (), "sm_80", Settings(), toolchain)))


def _check_works(run: JobResult) -> None:
    if run.succeeded and "kernels.json" in run.files:
        return
    said = last_words(run.stderr.decode(errors="replace")) or ending_of(run)
    if run.met_limit or run.signal is not None:
        raise InfrastructureError(f"Triton could not be started in the sandbox: {said}.", "Run `assay doctor`.")
    raise LiftRefusedError(
        Status.UNSUPPORTED,
        f"Triton does not work in the grader's sandbox: {said}.",
        "The operator can ask `assay doctor`. It was not judged, so there is no reward.",
    )


def _job(
    files: Mapping[str, bytes],
    entry: str,
    calls: Sequence[Mapping[str, Any]],
    arch: str,
    settings: Settings,
    toolchain: Toolchain,
) -> Job:
    request = {
        **device_for_python(arch),
        "entry": entry,
        "run_s": _RUN_S,
        "compile_s": settings.compile_timeout_s,
        "calls": calls,
    }
    until_s = settings.compile_timeout_s + _START_S + _ASLEEP_S
    return Job(
        argv=tuple(own_python(_PROGRAM)),
        files={**files, "request.json": json.dumps(request).encode()},
        collect=("kernels.json", *(f"recording.{number}" for number in range(len(calls)))),
        readable=(*readable_packages(), *toolchain.readable),
        environment={
            **python_path(),
            "LC_ALL": "C.UTF-8",
            "PYTHONHASHSEED": "0",
            # What Triton asks for the version of PTX to write.
            "TRITON_PTXAS_PATH": str(toolchain.ptxas),
            "TRITON_PTXAS_BLACKWELL_PATH": str(toolchain.ptxas),
            "TRITON_DEFAULT_FP_FUSION": "1",
        },
        limits=Limits(
            wall_s=until_s,
            cpu_s=until_s,
            memory_bytes=settings.memory_bytes,
            file_bytes=_MAX_KERNELS_BYTES,
            processes=_MOST_PROCESSES,
            output_bytes=1 << 20,
        ),
    )


def launched(recording: Recording) -> list[str]:
    """The ids of the kernels that it launches, in order."""
    return [step.kernel for step in recording.steps if hasattr(step, "kernel")]


def _of_failure(failure: _Failure | None, entry: str) -> LiftRefusedError:
    if failure is None:
        return not_triton("a recording is empty")
    said = "".join(letter if letter.isprintable() else " " for letter in failure.said).strip()
    if failure.kind == "syntax":
        return NotPythonError(failure.line or 1, said)
    where = f" (line {failure.line})" if failure.line else ""
    unsupported = "It was not judged, so there is no reward."
    table: dict[str, tuple[Status, str, str]] = {
        "reads_data": (
            Status.UNSUPPORTED,
            f"The Python reads data{where}: {said}. It is only recorded, so there is none that it could look at.",
            f"Decide in kernels, and by shapes alone in Python. {unsupported}",
        ),
        "not_recorded": (
            Status.UNSUPPORTED,
            f"The Python uses {said}{where}, which cannot be recorded.",
            f"docs/triton.md lists what can be. {unsupported}",
        ),
        "no_module": (
            Status.UNSUPPORTED,
            f"The Python imports what is not there{where}: {said}.",
            f"Write it with `triton` and the little of `torch` that docs/triton.md lists. {unsupported}",
        ),
        "compile": (
            Status.COMPILE_ERROR,
            f"{SOURCE}:{failure.line or 0}: {said}" if failure.line else f"Triton does not compile a kernel: {said}",
            "It is what Triton's own compiler says of a kernel that the Python launches.",
        ),
        "resources": (
            Status.RUNTIME_ERROR,
            f"A kernel does not fit the device{where}: {said}",
            "Use smaller tiles, or fewer stages.",
        ),
        "memory": (Status.OUT_OF_MEMORY, f"The Python asks for too much memory{where}: {said}.", "Use less of it."),
        "result": (
            Status.INVALID_SUBMISSION,
            f"`{entry}` does not give the outputs: {said}.",
            "Take the outputs as parameters and write them in kernels, or return them as whole tensors.",
        ),
        "misfit": (
            Status.INVALID_SUBMISSION,
            f"The solution does not fit the problem: {said}.",
            "Define ModelNew with the arguments of the reference's Model.",
        ),
        "exit": (
            Status.RUNTIME_ERROR,
            f"The Python ends itself{where}: sys.exit({said}).",
            "Return from the function.",
        ),
        "exception": (
            Status.RUNTIME_ERROR,
            f"The Python raises an exception{where}: {said}",
            f"`{entry}` is called with tensors on the device and numbers, and must return without an exception.",
        ),
    }
    return LiftRefusedError(*table[failure.kind])
