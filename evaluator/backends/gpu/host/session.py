"""A session of the host tier: the referee reveals one input at a time, and takes the answer over when it is there.

Three programs stand side by side, each in memory of its own: the submission's in its process, and in a process of
ours, which serves many evaluations, the null submission and PyTorch's own way to solve the problem. A problem that
someone else states has its baseline in a third process, because its file is as untrusted as a submission.
"""

import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Any, Final, Protocol, Self

from common.contract import Fault
from evaluator.backends.gpu.host.process import HostFaultError, HostProcess, RunnableText
from evaluator.backends.gpu.shared_memory import Layout, Memory, layout
from evaluator.backends.prebuilt import ExtensionCall
from evaluator.backends.session import PlanRun, RunOutcome, SubmissionCall
from evaluator.errors import GpuError
from evaluator.problems.arrays import Array
from evaluator.sandbox.sandbox import Sandbox

_OWN_S: Final = 60.0
"""For what our own programs are asked: it only ends a machine that hangs."""


class HostSide(Protocol):
    """What the referee has of the device that processes for host code compute on."""

    device: str
    """`module:class` of their side of it (`inside.process.HostDevice`)."""

    def memory(self, size_bytes: int) -> Memory:
        """Memory that such a process can map."""

    def synchronize(self) -> None:
        """Wait until other processes see what was written."""

    def flush(self) -> None:
        """Leave nothing in the device's caches, and nothing that persists there by request."""

    def clear(self) -> None:
        """Overwrite all of the device's memory that is free: what an ended process had there."""


class Stand:
    """One program in a process, with memory that it shares with the referee."""

    def __init__(self, name: str, process: HostProcess, side: HostSide, program: RunnableText) -> None:
        self._name, self._process, self._side, self._program = name, process, side, program
        self._memory: Memory | None = None
        self._prepared: SubmissionCall | None = None
        self._where: Layout | None = None
        self._taken: dict[str, Array] = {}
        self._loaded = False
        self._word = secrets.randbelow(255) + 1
        self.entry = ""

    @property
    def alive(self) -> bool:
        """Whether its process still runs."""
        return self._process.alive

    def prepare(self, call: SubmissionCall, time_s: float) -> None:
        """Carry it out and make it for a call. Raises HostFaultError, GpuError."""
        if not self._loaded:
            self._process.load(self._name, self._program, time_s)
            self._loaded = True
        if self._prepared == call:
            return
        where = layout(call.buffers())
        if self._memory is None or self._memory.size_bytes < where.size_bytes:
            old, self._memory = self._memory, self._side.memory(where.size_bytes)
            self._process.share(self._name, self._memory)
            if old is not None:
                old.close()
        for start, end in where.guards():
            self._memory.content[start:end].fill_(self._word)
        tensors = [
            (one.name, one.role, one.type_name, one.shape, place.offset, place.size_bytes)
            for one, place in zip(call.tensors, where.places, strict=True)
        ]
        order = {
            "sizes": dict(call.sizes),
            "scalars": dict(call.scalars),
            "tensors": tensors,
            "reference": call.reference,
            "changed": call.changed,
        }
        self._side.synchronize()
        self.entry = self._process.prepare(self._name, order, time_s)
        self._prepared, self._where = call, where

    def run(self, inputs: Mapping[str, Array | None], poison: int, time_s: float, still: Callable[[], None]) -> float:
        """Reveal the inputs, run it once, and take the answer over: what that took, µs. Raises HostFaultError.

        `still` is called before the clock starts: nothing else goes on then. The inputs appear after it has: what
        watches the memory for them has no head start.
        """
        content, where = self._content()
        initial = {target: source for source, target in self._prepared.initial} if self._prepared else {}
        for place in where.places:
            content[place.offset : place.end].fill_(0 if place.name in initial else poison)
        revealed = [
            (content[place.offset : place.end], given.reshape(-1).contiguous().view(content.dtype))
            for place in where.places
            if (given := inputs.get(initial.get(place.name, place.name))) is not None
        ]
        self._process.arm(self._name, time_s)
        still()
        self._side.synchronize()
        began_ns = time.perf_counter_ns()
        for target, given in revealed:
            target.copy_(given)
        self._side.synchronize()
        self._process.go(time_s)
        # The answer is what is there now: what a stream or a thread writes later came too late.
        self._taken = {
            place.name: content[place.offset : place.end].clone()
            for place in where.places
            if place.name not in inputs
        }
        self._side.synchronize()
        return (time.perf_counter_ns() - began_ns) / 1e3

    def contents(self) -> dict[str, Array]:
        """What all tensors hold after a run: outputs as they were taken over."""
        content, where = self._content()
        return {place.name: self._taken.get(place.name, content[place.offset : place.end]) for place in where.places}

    def trespass(self) -> Fault | None:
        """What was written outside of the tensors, if anything."""
        content, where = self._content()
        for start, end in where.guards():
            hit = (content[start:end] != self._word).nonzero()
            if not len(hit):
                continue
            offset = min((start + int(hit[0]), start + int(hit[-1])), key=where.distance)
            place, element = where.nearest(offset)
            beyond = "before its start" if element < 0 else "past its end"
            message = f"{place.name}[{element}] was written, {beyond}"
            content[start:end].fill_(self._word)
            return Fault(kind="out_of_bounds", message=message, buffer=place.name, element=element)
        return None

    def spent(self, time_s: float) -> list[tuple[str, str, float]]:
        """What one more call spends its time on. Raises HostFaultError."""
        return self._process.spent(self._name, time_s)

    def close(self, end_process: bool) -> None:
        """Give the memory back, cleared; and end the process, if it is not ours."""
        if end_process:
            self._process.close()
        if self._memory is not None:
            self._memory.content.zero_()
            self._memory.close()
            self._memory = None

    def _content(self) -> tuple[Any, Layout]:
        if self._memory is None or self._where is None:
            raise GpuError("A program was run that is not prepared.", "Please report it.")
        return self._memory.content, self._where


class HostRuntime:
    """Processes for host code on one device. One session at a time."""

    def __init__(
        self, sandbox: Sandbox, gpu: str, side: HostSide, ahead: bool = True, memory_bytes: int = 16 << 30
    ) -> None:
        """`ahead`: keep a process ready for the next submission, as soon as there has been one. `memory_bytes`: of
        the host, for each process.
        """
        self._memory_bytes = memory_bytes
        self._sandbox, self._gpu, self._side, self._ahead = sandbox, gpu, side, ahead
        self._next: HostProcess | None = None
        self._own: HostProcess | None = None

    def open(
        self,
        program: RunnableText,
        baseline: RunnableText | None,
        foreign: bool = False,
        given: Collection[str] = (),
    ) -> "HostSession":
        """A session for this program. `foreign`: the baseline's text is someone else's, and has a process of its own.
        `given`: the outputs that the program is given to write to, and does not return.

        Raises SandboxError, StorageError, GpuError.
        """
        process, self._next = self._next, None
        if process is None or not process.usable:
            self._ended(process)
            process = self._started()
        if self._own is None or not self._own.usable:
            self._ended(self._own)
            self._own = self._started()
        beside = self._started() if foreign and baseline is not None else None
        if self._ahead:
            self._next = self._started()
        # What importing PyTorch takes is nobody's time but ours.
        process, self._own = self._ready(process), self._ready(self._own)
        beside = None if beside is None else self._ready(beside)
        returning = Stand("returning", self._own, self._side, _null(())) if given and baseline is not None else None
        other = Stand("baseline", beside or self._own, self._side, baseline) if baseline is not None else None
        compared = ComparisonStands(Stand("null", self._own, self._side, _null(given)), returning, other, foreign)

        def submitted(there: HostProcess | None = None) -> Stand:
            return Stand("submission", there or self._started(), self._side, program)

        return HostSession(self._side, submitted(process), compared, submitted)

    def close(self) -> None:
        """End what waits for the next submission."""
        for process in (self._next, self._own):
            self._ended(process)
        self._next = self._own = None

    def _ready(self, process: HostProcess) -> HostProcess:
        """The process when it can compute, or another one: a context may find no memory in the moment in which
        another referee overwrites what is free.

        Raises SandboxError, StorageError, GpuError.
        """
        try:
            process.await_ready()
        except GpuError:
            process = self._started()
            process.await_ready()
        return process

    def _started(self) -> HostProcess:
        return HostProcess(self._sandbox, self._gpu, self._side.device, self._memory_bytes)

    @staticmethod
    def _ended(process: HostProcess | None) -> None:
        if process is not None:
            process.close()


@dataclass(frozen=True)
class ComparisonStands:
    """The programs beside a submission, whose time is measured as the submission's is."""

    null: Stand
    """The null submission."""
    returning: Stand | None = None
    """A null submission that returns all outputs, as the baseline does, where the other does not."""
    baseline: Stand | None = None
    foreign: bool = False
    """Whether the baseline's text is someone else's, and has a process of its own."""

    def close(self) -> None:
        """Give their memory back, and end the process that is not ours."""
        for own in (self.null, self.returning):
            if own is not None:
                own.close(end_process=False)
        if self.baseline is not None:
            self.baseline.close(end_process=self.foreign)


class HostSession:
    """One submission whose host code runs (`backends.session.Session`), beside the null submission and a baseline."""

    reorders = False
    free_registers: Mapping[str, int | None] = MappingProxyType({})
    unset_lines: tuple[int, ...] = ()
    schedules = False
    shares_memory = False
    looks = False
    counts_instructions = False

    def __init__(
        self,
        side: HostSide,
        submission: Stand,
        compared: ComparisonStands,
        anew: Callable[[], Stand],
    ) -> None:
        """`anew`: the same submission in another process."""
        self._side, self._submission, self._compared, self._anew = side, submission, compared, anew

    @property
    def entry(self) -> str:
        """What is called of the submission, in words; empty before its first run."""
        return self._submission.entry

    def run(self, run: PlanRun) -> RunOutcome:
        """One call of the submission. Raises GpuError."""
        call = run.host_call
        if call is None or not self._submission.alive:
            raise GpuError("There is no process for this call of host code.", "The job can be tried again.")
        inputs = {one.name: one.content for one in run.buffers if one.role == "input"}
        began_s = time.monotonic()
        try:
            self._submission.prepare(call, run.time_limit_s)
            left_s = max(0.0, run.time_limit_s - (time.monotonic() - began_s))
            still = self._side.flush if run.quiet else _nothing
            took_us = self._submission.run(inputs, run.poison, left_s, still)
        except HostFaultError as failed:
            return RunOutcome({}, failed.fault, own_s=time.monotonic() - began_s)
        fault = self._submission.trespass() if run.look else None
        return RunOutcome(
            {} if fault else self._submission.contents(),
            fault,
            own_s=time.monotonic() - began_s,
            times_us=(took_us, took_us, took_us),
        )

    def null_us(self, call: SubmissionCall, inputs: Mapping[str, Array]) -> float:
        """What the null submission takes for the same. Raises GpuError."""
        return self._timed(self._compared.null, call, inputs)

    def baseline_null_us(self, call: SubmissionCall, inputs: Mapping[str, Array]) -> float | None:
        """What a null submission takes that returns outputs as the baseline does, where the other does not. Raises
        GpuError.
        """
        returning = self._compared.returning
        return None if returning is None else self._timed(returning, call, inputs)

    def baseline_us(self, call: SubmissionCall, inputs: Mapping[str, Array]) -> float:
        """What the baseline takes for the same. Raises GpuError, and HostFaultError where it is someone else's."""
        assert self._compared.baseline is not None
        return self._timed(self._compared.baseline, call, inputs)

    def spent(self, time_s: float) -> list[tuple[str, str, float]]:
        """What a call of the submission on its last inputs spends its time on, as it says. Raises HostFaultError.

        Where its process does not survive being looked at, it goes on in another one. Raises GpuError.
        """
        try:
            return self._submission.spent(time_s)
        finally:
            if not self._submission.alive:
                self._submission.close(end_process=True)
                self._submission = self._anew()

    def end_submission(self) -> None:
        """End the submission's process and all that it started; the others can still be timed. Raises GpuError."""
        self._submission.close(end_process=True)

    def _timed(self, stand: Stand, call: SubmissionCall, inputs: Mapping[str, Array]) -> float:
        try:
            stand.prepare(call, _OWN_S)
            return stand.run(inputs, 0, _OWN_S, self._side.flush)
        except HostFaultError as failed:
            if stand is self._compared.baseline and self._compared.foreign:
                raise
            raise GpuError(f"A program of the grader's own failed: {failed}.", "Please report it.") from failed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_submission()
        self._compared.close()
        self._side.clear()


def _null(given: Collection[str]) -> RunnableText:
    """The null submission, which returns all outputs but those that it is given."""
    return RunnableText("null", "", call=ExtensionCall("", tuple(("t", name) for name in given)))


def _nothing() -> None:
    """Nothing is to be done before a run whose time does not matter."""
