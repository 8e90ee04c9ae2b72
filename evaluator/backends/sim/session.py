"""One program in its process: what is asked of it, and what it answers (`runtime/runtime.cpp` is the other side)."""

import contextlib
import math
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from common.contract import Fault
from common.contract.counters import LaunchCounts
from common.demangled import without_parameters
from evaluator.backends.session import (
    Buffer,
    BufferCopy,
    BufferFill,
    BufferSample,
    Entry,
    KernelLaunch,
    Packed,
    PlanRun,
    Pointer,
    RunOutcome,
    UnsupportedError,
    Watch,
)
from evaluator.backends.sim import counters
from evaluator.backends.sim.codegen import module
from evaluator.backends.sim.hazards import (
    SHARED_BUFFER,
    Side,
    hazard,
    in_array,
    of_the_system,
    read_findings,
    read_notices,
)
from evaluator.errors import InfrastructureError
from evaluator.sandbox.host import warden
from evaluator.sandbox.host.result import too_busy
from evaluator.sandbox.retry import foreign, job_killed
from evaluator.sandbox.sandbox import JobResult, SessionEndedError
from evaluator.sandbox.sandbox import SandboxSession as SandboxSession

_REPORT_IT: Final = "Please report it with the kernel's source."
_SLACK_S: Final = 2.0
"""How much later than its limit a run may answer: its own clock ends it in better words, if it is to be believed."""
_BELIEVED: Final = warden.STRETCH_BEHIND
"""How many times as long as it says that it ran a run may have lasted: on a busy machine it stood in line for the
rest."""
_PIPED_BYTES_PER_S: Final = 100e6
"""What memory travels at for sure, there and back."""
_ALL_WATCHED: Final = 1 << 16
_CANNOT_LOAD: Final = 5
"""How the process ends whose library is none or may not be loaded; `runtime/runtime.cpp` has the same."""
_MAX_TEXT_BYTES: Final = 1 << 20
_MAX_COUNTS_BYTES: Final = 64 << 20
_MAX_WARPS_TOGETHER: Final = 4096
_TO_THE_END: Final = (1 << 64) - 1
"""In the place of the size of a stretch."""
_VARIABLES: Final = 1 << 32
"""In the place of buffers' numbers; `runtime/runtime.cpp` has the same."""
_ELEMENTS: Final = (1 << 64) - 1
"""In the place of a run's number of buffers; `runtime/samples.h` has the same."""


class SimulatorSession:
    """One program in its process. See `runtime/runtime.cpp` for the other side of the pipe."""

    reorders = True
    counts_instructions = True
    looks = False

    def __init__(
        self,
        start: Callable[[], SandboxSession],
        translated: module.Translation,
        entries: Iterable[Entry],
        slower: float = 1.0,
    ) -> None:
        """`slower`: by how much the program runs longer than its time shall count, limits included."""
        self.start = start
        self.slower = slower
        self.process = start()
        self.entries = {entry.symbol: entry for entry in entries}
        self.translated = translated
        self.free_registers = translated.free_registers
        self.unset_lines = translated.unset_lines
        self.schedules = translated.schedules
        self.shares_memory = translated.shares_memory
        self._introduced = False
        self._over = False
        """Whether the process has ended with its last run: one that faults does."""
        self._buffers: dict[str, tuple[int, int]] = {}
        """Number and element size of each buffer of the last run."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.finish()

    def run(self, run: PlanRun) -> RunOutcome:
        """Send the run, wait, and read what memory holds; after a fault in a process that has run nothing.

        Raises InfrastructureError when the process breaks.
        """
        if self._over:
            self.renew()
        outcome = self._run(run)
        self._over = outcome.fault is not None
        return outcome

    def _run(self, run: PlanRun) -> RunOutcome:
        travelling_bytes = sum(b.size_bytes for b in run.buffers if b.role != "temporary" and not b.sampled) * 2
        self._buffers = {buffer.name: (index, buffer.item_bytes) for index, buffer in enumerate(run.buffers)}
        allowed_s = run.time_limit_s * self.slower + _SLACK_S + travelling_bytes / _PIPED_BYTES_PER_S
        # The program counts the time that it has a processor; this clock is for one that says nothing.
        allowed_s = warden.longest_s(allowed_s, steps_back=True)
        began_s = time.monotonic()
        self.process.allow(allowed_s)
        try:
            # A process that has no room for the buffers answers before it has read them all.
            with contextlib.suppress(SessionEndedError):
                self.process.send(*self._introduction(), *self._request(run))
            return self._answer(run, began_s)
        except SessionEndedError as ended:
            finished = self.process.finish()
            if finished.memory_exceeded:
                return RunOutcome({}, Fault(kind="out_of_memory", message="ran out of the simulator's memory limit"))
            if finished.timed_out or time.monotonic() > began_s + allowed_s:
                if finished.waited_s > finished.wall_s / 2:
                    raise too_busy(finished.wall_s, finished.waited_s) from ended
                return RunOutcome({}, Fault(kind="watchdog", message="was still running when its time was up"))
            if by := foreign(finished):
                raise job_killed(f"The simulator's process was killed from outside ({by.name}).") from ended
            raise _ended_unexpectedly(finished) from ended

    def elements(self, buffer: str, chosen: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Elements of a buffer of the last run. Raises InfrastructureError when the process breaks."""
        number, item_bytes = self._buffers[buffer]
        self.process.allow(warden.longest_s(_SLACK_S + chosen.nbytes / _PIPED_BYTES_PER_S, steps_back=True))
        try:
            self.process.send(struct.pack("<3Q", _ELEMENTS, number, chosen.size), chosen.astype("<u8").tobytes())
            memory = self.process.receive(chosen.size * item_bytes)
        except SessionEndedError as ended:
            raise _ended_unexpectedly(self.process.finish()) from ended
        return np.frombuffer(memory, np.uint8).reshape(chosen.size, item_bytes)

    def renew(self) -> None:
        """Begin again, with a process that has run nothing."""
        self.process.finish()
        self.process = self.start()
        self._introduced = self._over = False

    def _introduction(self) -> list[bytes]:
        """Names and lines, which the translated text does not hold; sent once."""
        if self._introduced:
            return []
        self._introduced = True
        lines = self.translated.lines
        parts = [struct.pack("<Q", len(lines)), struct.pack(f"<{len(lines)}i", *lines)]
        for names in (self.translated.kernels, self.translated.variables):
            parts.append(struct.pack("<Q", len(names)))
            parts += [_text(name) for name in names]
        return [b"".join(parts)]

    def _request(self, run: PlanRun) -> list[bytes | memoryview]:
        parts: list[bytes | memoryview] = []
        numbers: dict[str, int] = {}
        limit_ns = max(0, int(run.time_limit_s * self.slower * 1e9))
        watch = run.watch or Watch(share=0)
        elsewhere = run.poison if run.poison_elsewhere is None else run.poison_elsewhere
        undefined = run.poison | elsewhere << 8 | run.keeps << 16
        parts.append(struct.pack("<4Q", len(run.buffers), undefined, run.backwards, limit_ns))
        parts.append(struct.pack("<3Q", run.count, run.sample_blocks, run.sample_seed))
        parts.append(struct.pack("<3Q", round(min(watch.share, 1) * _ALL_WATCHED), watch.seed, run.jitter))
        parts.append(struct.pack("<4Q", run.instruction_limit, run.registers, run.schedule, run.weak_memory))
        for index, buffer in enumerate(run.buffers):
            numbers[buffer.name] = index
            flags = (buffer.content is not None) | (buffer.role != "temporary" and not buffer.sampled) << 1
            flags |= buffer.repeats << 2 | buffer.sampled << 3
            parts.append(struct.pack("<3Q", buffer.size_bytes, buffer.item_bytes, flags) + _text(buffer.name))
            if buffer.repeats:
                many = 0 if buffer.stretches is None else len(buffer.stretches)
                parts.append(struct.pack("<2Q", 0 if buffer.content is None else buffer.content.nbytes, many))
                parts += [] if buffer.stretches is None else [buffer.stretches.astype("<u8").tobytes()]
            if buffer.content is not None:
                content = np.ascontiguousarray(buffer.content)
                assert buffer.repeats or content.nbytes == buffer.size_bytes
                parts.append(content.reshape(-1).view(np.uint8).data)
        parts.append(struct.pack("<Q", len(run.steps)))
        parts += [self._step(step, numbers) for step in run.steps]
        return parts

    def _step(self, step: KernelLaunch | BufferFill | BufferCopy, numbers: Mapping[str, int]) -> bytes:
        if isinstance(step, BufferFill):
            slot = self._slot(step.buffer, step.variable, numbers)
            stretch = (step.offset_bytes, _TO_THE_END if step.size_bytes is None else step.size_bytes)
            return struct.pack("<5Q", 1, slot, *stretch, len(step.pattern)) + step.pattern
        if isinstance(step, BufferCopy):
            slots = (numbers[step.source], self._slot(step.target, step.variable, numbers))
            size_bytes = _TO_THE_END if step.size_bytes is None else step.size_bytes
            return struct.pack("<6Q", 2, *slots, step.source_offset_bytes, step.target_offset_bytes, size_bytes)
        warps = math.prod(step.grid) * -(-math.prod(step.block) // 32)
        if step.cooperative and warps > _MAX_WARPS_TOGETHER:
            raise UnsupportedError(
                f"a cooperative launch of {warps} warps (the simulator keeps {_MAX_WARPS_TOGETHER} alive at once)"
            )
        if step.cluster is not None:
            raise UnsupportedError("a launch of thread block clusters")
        index = self.translated.kernels.index(step.symbol)
        head = struct.pack("<10Q", 0, index, *step.grid, *step.block, step.shared_bytes, step.cooperative)
        arguments = []
        for parameter, argument in zip(self.entries[step.symbol].parameters, step.arguments, strict=True):
            if isinstance(argument, Pointer):
                arguments.append(_address(parameter.offset, argument, numbers))
            elif isinstance(argument, Packed):
                arguments.append(_value(parameter.offset, argument.data))
                arguments += [_address(parameter.offset + at, to, numbers) for at, to in argument.addresses]
            else:
                arguments.append(_value(parameter.offset, argument))
        return head + struct.pack("<Q", len(arguments)) + b"".join(arguments)

    def _slot(self, name: str, variable: bool, numbers: Mapping[str, int]) -> int:
        """The number of a buffer, or, from `_VARIABLES` on, of a variable of the program."""
        if not variable:
            return numbers[name]
        if name not in self.translated.variables:
            # A kernel uses it only where the translation has it; elsewhere nothing is to be seen of it.
            raise UnsupportedError(f"a copy into the variable {name}, which no kernel uses")
        return _VARIABLES + self.translated.variables.index(name)

    # Answers

    def _number(self) -> int:
        return int.from_bytes(self.process.receive(8), "little")

    def _numbers(self, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}q", self.process.receive(8 * count))

    def _words(self) -> str:
        size = self._number()
        if size > _MAX_TEXT_BYTES:
            raise InfrastructureError("The simulator's process sent a text that is too long.")
        return self.process.receive(size).decode(errors="replace")

    def _answer(self, run: PlanRun, began_s: float) -> RunOutcome:
        faulted, executed, issued, shuffles, lost_prints, spread_launches, points, turns, own_ns = self._numbers(9)
        printed = self._words()
        warnings, notices = read_notices(self._words().splitlines())
        watched, ran = self._numbers(2)
        extents = {step.symbol: step.block for step in run.steps if isinstance(step, KernelLaunch)}
        hazards = tuple(
            hazard(
                found,
                self._kernel_name(found.symbol),
                self.translated.shared.get(found.symbol, ()),
                extents.get(found.symbol, (1, 1, 1)),
            )
            for found in read_findings(self._number, self._numbers, self._words)
            if not of_the_system(found, self.translated.shared.get(found.symbol, ()))
        )
        if lost_prints:
            warnings = (*warnings, f"{lost_prints} prints beyond the limit were dropped")
        fault = self._fault(run) if faulted else None
        contents: dict[str, NDArray[np.uint8]] = {}
        unwritten: dict[str, int | None] = {}
        counts: tuple[LaunchCounts, ...] = ()
        samples: dict[str, BufferSample] = {}
        if fault is None:
            counts = self._counts(run)
            returned = [buffer for buffer in run.buffers if buffer.role != "temporary" and not buffer.sampled]
            for buffer in returned:
                byte = self._number()
                if byte <= buffer.size_bytes:
                    unwritten[buffer.name] = None if byte == buffer.size_bytes else byte // buffer.item_bytes
            for buffer in returned:
                contents[buffer.name] = np.frombuffer(self.process.receive(buffer.size_bytes), np.uint8)
            samples = {buffer.name: self._sample(buffer) for buffer in run.buffers if buffer.sampled}
        # A process that claims to have been idle all the time is believed up to a limit only.
        own_s = max(own_ns / 1e9, (time.monotonic() - began_s) / _BELIEVED) / self.slower
        facts = {"shuffles": shuffles, "spread_launches": spread_launches}
        if run.schedule:
            facts |= {"schedule_points": points, "schedule_turns": turns}
        if run.schedule or run.weak_memory:
            facts["warp_instructions"] = issued
        return RunOutcome(
            contents,
            fault,
            warnings,
            printed,
            executed,
            own_s,
            hazards=hazards,
            notices=notices,
            first_unwritten=unwritten,
            watched_blocks=(watched, ran),
            facts=facts,
            counts=counts,
            samples=samples,
        )

    def _sample(self, buffer: Buffer) -> BufferSample:
        number = self._numbers(1)[0]
        if buffer.role == "input":
            return BufferSample(changed=None if number < 0 else number // buffer.item_bytes)
        if number == 0:
            return BufferSample()
        items = buffer.size_bytes // buffer.item_bytes
        bits = np.frombuffer(self.process.receive(-(-items // 8)), np.uint8)
        return BufferSample(unwritten=np.unpackbits(bits, count=items, bitorder="little").view(np.bool_))

    def _counts(self, run: PlanRun) -> tuple[LaunchCounts, ...]:
        launches, size = self._numbers(2)
        if not 0 <= size <= _MAX_COUNTS_BYTES:
            raise InfrastructureError("The simulator's process sent counts that are too long.")
        record = self.process.receive(size)
        names = [self._kernel_name(symbol) or symbol for symbol in self.translated.kernels]
        steps = [step for step in run.steps if isinstance(step, KernelLaunch)]
        return counters.counts_of(record, launches, self.translated.ledger, names, steps)

    def _kernel_name(self, symbol: str) -> str | None:
        """`ns::scale<float, 4>`: the kernel as its author calls it, without its parameters."""
        entry = self.entries.get(symbol)
        return without_parameters(entry.name) if entry else None

    def _fault(self, run: PlanRun) -> Fault:
        kind, message, symbol = self._words(), self._words(), self._words()
        line, has_thread, *position = self._numbers(8)
        buffer = self._words()
        element, access_bytes, base, has_other, act, other_line, *met = self._numbers(12)
        other = Side(act, other_line, (met[0], met[1], met[2]), (met[3], met[4], met[5])).other if has_other else None
        thread = (position[0], position[1], position[2])
        block = (position[3], position[4], position[5])
        steps = [step for step in run.steps if isinstance(step, KernelLaunch) and step.symbol == symbol]
        if kind == "trap" and self.translated.grid_wide and not any(step.cooperative for step in steps):
            kind, message = "not_cooperative", "called `grid.sync()` in a launch that is not cooperative"
        if buffer == SHARED_BUFFER and access_bytes:
            dynamic_bytes = max((step.shared_bytes for step in steps), default=0)
            variables = self.translated.shared.get(symbol, ())
            buffer, element, message = in_array(message, element, access_bytes, base, variables, dynamic_bytes)
        return Fault(
            kind=kind,
            message=message,
            kernel=self._kernel_name(symbol),
            line=line if line > 0 else None,
            thread=thread if has_thread else None,
            block=block if has_thread else None,
            buffer=buffer or None,
            element=element if buffer else None,
            other=other,
        )


def _ended_unexpectedly(finished: JobResult) -> InfrastructureError:
    how, said = f"exit code {finished.exit_code}, signal {finished.signal}", finished.stderr.decode(errors="replace")
    if finished.exit_code == _CANNOT_LOAD:
        return InfrastructureError(
            f"The simulator's process could not load the program that it was to run: {said.strip()[-500:]}",
            "Allow jobs to load what is compiled in ASSAY_DATA_DIR (SELinux and fapolicyd can forbid it), see that "
            "there is room, and remove its folder `cache` where a file in it is broken.",
        )
    return InfrastructureError(f"The simulator's process ended unexpectedly ({how}): {said[-500:]}", _REPORT_IT)


def _value(offset: int, data: bytes) -> bytes:
    return struct.pack("<3Q", 0, offset, len(data)) + data


def _address(offset: int, pointer: Pointer, numbers: Mapping[str, int]) -> bytes:
    return struct.pack("<4Q", 1, offset, numbers[pointer.buffer], pointer.offset_bytes)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data
