"""Running host code that nobody trusts: in a sandbox, twice for each recording, and what each way of ending means."""

import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final, Protocol

from common.contract import Settings, Status
from evaluator.problems.problem import Problem, Sizes
from evaluator.sandbox.retry import MAX_TRIES, foreign, killed_from_outside, signals_of
from evaluator.sandbox.sandbox import Job, JobResult, Limits, Sandbox
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.recording import (
    MAX_RECORDING_BYTES,
    TENSORS_OF_CALLS,
    Recording,
    Refusal,
    recording_of,
    seeds_of_both,
)

_RUN_S: Final = 3.0
"""Wall-clock limit of the calls of the entry function in one process, which launch nothing in truth."""
_ALL_S: Final = 20.0
RECORDINGS_S: Final = 60.0
"""For all recordings of one submission together, at whatever sizes and however often they are tried. Ordinary ones
take a second in all; these are three sandboxes that use up their time, and nobody else's evaluation should wait
longer. A refusal at one size is followed by others, and what a signal ends is tried again: without this, minutes."""
_MAX_WRITTEN_BYTES: Final = 128 << 20
_ENDING: Final = re.compile(rb"^(\d{1,6}) (exit|signal|late)(?: (\d{1,3}))?$", re.MULTILINE)
_MAX_AT_ONCE: Final = 64
"""Calls in one sandbox; each is recorded twice."""


@dataclass(frozen=True)
class HostCall:
    """What the calls of the entry function in one process get: the tensors' bytes, of both sets, and the arguments
    as the recorder reads them, each call's behind a line that begins it.
    """

    buffers_bytes: tuple[int, ...]
    values: tuple[str, ...]

    def line(self, seed: int) -> str:
        """The call with made-up addresses that follow `seed`."""
        fields = (seed, len(self.buffers_bytes), *self.buffers_bytes, len(self.values), *self.values)
        return " ".join(map(str, fields))


def bytes_of_tensors(problem: Problem, *sizes_of_sets: Sizes) -> tuple[int, ...]:
    """Of each input and then each output, of each set of tensors (TENSORS_OF_CALLS)."""
    tensors = (*problem.inputs, *problem.outputs)
    return tuple(
        prod(tensor.shape_at(sizes)) * tensor.dtype.size_bytes for sizes in sizes_of_sets for tensor in tensors
    )


class RunsJobs(Protocol):
    """A sandbox, or its part that recordings need."""

    def run(self, job: Job) -> JobResult:
        """Run the job to its end."""


class RecordingSandbox:
    """A sandbox for the recordings of one submission, which have so much time together."""

    def __init__(self, sandbox: Sandbox, more_s: float = 0.0) -> None:
        """`more_s`: time beside RECORDINGS_S, seconds."""
        self._sandbox = sandbox
        self._budget_s = self._left_s = RECORDINGS_S + more_s

    def run(self, job: Job) -> JobResult:
        """As `Sandbox.run`; what a job stands in line for a processor is not counted.

        Raises LiftRefusedError once the time is used up, and where it ends the job.
        """
        if self._left_s <= 0:
            raise self._used_up()
        wall_s = min(job.limits.wall_s, self._left_s)
        run = self._sandbox.run(replace(job, limits=replace(job.limits, wall_s=wall_s)))
        self._left_s -= run.wall_s - run.waited_s
        if run.timed_out and wall_s < job.limits.wall_s:
            self._left_s = 0.0
            raise self._used_up()
        return run

    def _used_up(self) -> LiftRefusedError:
        return LiftRefusedError(
            Status.TIMEOUT,
            f"Recording the host code took longer than {self._budget_s:g} s for all sizes together.",
            "It computes nothing then: let it launch and return, end by no signal, and serve all sizes.",
        )


Recorded = tuple[Recording | Refusal, Recording | Refusal]


def record(
    host: bytes,
    runs: bytes,
    program: str,
    calls: Sequence[HostCall],
    settings: Settings,
    sandbox: RunsJobs,
    name: str,
) -> list[Recorded | LiftRefusedError]:
    """Both recordings of each call, up to the first that cannot be had, whose refusal is the last.

    `program`: device and kernels, as the recorder reads them; `name`: what is called. Raises InfrastructureError.
    """
    found: list[Recorded | LiftRefusedError] = []
    for start in range(0, len(calls), _MAX_AT_ONCE):
        found += _Batch(host, runs, program, calls[start : start + _MAX_AT_ONCE], settings, sandbox, name).results()
        if isinstance(found[-1], LiftRefusedError):
            break
    return found


class _Batch:
    def __init__(
        self,
        host: bytes,
        runs: bytes,
        program: str,
        calls: Sequence[HostCall],
        settings: Settings,
        sandbox: RunsJobs,
        name: str,
    ) -> None:
        self.calls, self.name, self.settings = calls, name, settings
        lines = [call.line(seed) for call in calls for seed in seeds_of_both()]
        count = len(lines)
        job = Job(
            ("./runs", str(count), f"{_RUN_S:g}"),
            files={"runs": runs, "host": host, "request": f"{program}\n{chr(10).join(lines)}\n".encode()},
            collect=tuple(f"recording.{number}" for number in range(count)),
            limits=Limits(
                wall_s=_ALL_S,
                cpu_s=_RUN_S,
                memory_bytes=settings.memory_bytes,
                file_bytes=MAX_RECORDING_BYTES,
                work_bytes=_MAX_WRITTEN_BYTES,
                output_bytes=1 << 20,
            ),
        )
        self.run = run_untrusted(sandbox, job, nothing_to_run(runs), signals_in(_ENDING))
        self.endings = endings_in(_ENDING, self.run)

    def results(self) -> list[Recorded | LiftRefusedError]:
        found: list[Recorded | LiftRefusedError] = []
        for number in range(len(self.calls)):
            try:
                found.append((self._one(2 * number), self._one(2 * number + 1)))
            except LiftRefusedError as refusal:
                found.append(refusal)
                break
        return found

    def _one(self, number: int) -> Recording | Refusal:
        written = self.run.files.get(f"recording.{number}")
        how, what = self.endings.get(number, ("none", 0))
        if how == "exit" and what == 0 and written is not None:
            return recording_of(written)
        raise self._refusal(how, what)

    def _refusal(self, how: str, what: int) -> LiftRefusedError:
        """What it means that a call left no recording."""
        run, name = self.run, self.name
        if how == "late" or (how == "signal" and what == signal.SIGXCPU) or (how == "none" and run.timed_out):
            return LiftRefusedError(
                Status.TIMEOUT,
                f"The host code took longer than {_RUN_S:g} s for {len(TENSORS_OF_CALLS)} calls of `{name}`, which "
                "compute nothing.",
                "Look for a loop that waits for the device, or does the work on the host.",
            )
        if took_too_much_memory(run, how, what):
            return LiftRefusedError(
                Status.OUT_OF_MEMORY,
                f"The host code took more than {self.settings.memory_bytes >> 20} MiB of memory on the host.",
                "Keep the data on the device.",
            )
        if run.met_limit or (how == "signal" and what == signal.SIGXFSZ):
            said = (
                run.limit_hit or f"it wrote more than {MAX_RECORDING_BYTES >> 20} MiB to a file, or too much in all"
            )
            return LiftRefusedError(
                Status.RUNTIME_ERROR,
                f"The host code met a limit while `{name}` was called: {said}.",
                "Launch kernels, and leave files, processes and threads alone.",
            )
        if how == "signal":
            return LiftRefusedError(
                Status.RUNTIME_ERROR,
                f"The host code was ended by {_signal_name(what)} while `{name}` was called.",
                "Check its indices and pointers; tensors are on the device and cannot be read by the host.",
            )
        if how == "exit":
            return LiftRefusedError(
                Status.RUNTIME_ERROR,
                f"The host code ended its process (exit code {what}) before `{name}` returned.",
                "Return from it: no exit, no abort, and no check that ends the process where all is well.",
            )
        return LiftRefusedError(
            Status.RUNTIME_ERROR,
            f"The host code ended the process that calls `{name}` ({ending_of(run)}).",
            "Send no signals, and end no processes.",
        )


def nothing_to_run(runs: bytes) -> Job:
    """A job of ours that ends by itself at once."""
    return Job(("./runs", "0", "1"), files={"runs": runs})


Endings = dict[int, tuple[str, int]]


def endings_in(pattern: re.Pattern[bytes], run: JobResult) -> Endings:
    """How each call ended by what the process says that made it, by the call's number: in a word, and with what."""
    return {int(one[1]): (one[2].decode(), int(one[3] or 0)) for one in pattern.finditer(run.stdout)}


def took_too_much_memory(run: JobResult, how: str, what: int) -> bool:
    """Whether a call that ended so (`Endings`) was ended for the memory that it took, or the whole job was."""
    if how == "signal" and what == signal.SIGKILL and what in run.own_signals:
        return True
    return run.memory_exceeded or (how == "none" and run.limit_hit is not None and "memory" in run.limit_hit)


def signals_in(pattern: re.Pattern[bytes]) -> Callable[[JobResult], frozenset[int]]:
    """What finds the signals that ended processes of calls, beside that which ended the job."""

    def found(run: JobResult) -> frozenset[int]:
        told = {what for how, what in endings_in(pattern, run).values() if how == "signal"}
        # The limits of a process of its own, which the job's clock has not measured.
        return signals_of(run) | told - {signal.SIGXCPU, signal.SIGXFSZ}

    return found


def run_untrusted(
    sandbox: RunsJobs, job: Job, control: Job, told: Callable[[JobResult], frozenset[int]] = signals_of
) -> JobResult:
    """Run a job that can end itself by any signal. Raises JobKilledError where it was someone outside.

    `told`: the signals that ended it, or a process of its own. Who sends a signal cannot be told. So it is tried
    again, and a program of ours (`control`) is run in the same way: where that is left alone, so was the other; but
    not where the kernel killed for memory that others took, for which it takes the largest.
    """
    taken = False
    for _ in range(MAX_TRIES):
        run = sandbox.run(job)
        if foreign(run, told(run)) is None:
            return run
        taken |= run.memory_taken
    if taken:
        raise killed_from_outside(signal.SIGKILL)
    if by := foreign(sandbox.run(control)):
        raise killed_from_outside(by)
    return run


def ending_of(run: JobResult) -> str:
    """In words."""
    if run.timed_out:
        return "its time was up"
    if run.limit_hit:
        return run.limit_hit
    return f"exit code {run.exit_code}" if run.exit_code is not None else _signal_name(run.signal or 0)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
