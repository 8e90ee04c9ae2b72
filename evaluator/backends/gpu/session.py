"""One program on the GPU: the referee writes contents into shared memory, a runner launches, the referee takes over.

Runs are judged elsewhere (`stages.verification`); here they become facts, as from every backend. All arrays are torch
tensors on the referee's device.
"""

import hashlib
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

import numpy as np

from common.contract import Fault
from common.demangled import without_parameters
from evaluator.backends.gpu import checks
from evaluator.backends.gpu.faults import fault_of
from evaluator.backends.gpu.pool import Runner, RunnerDiedError, RunnerError, RunnerHungError, RunnerPool, gpu_fault
from evaluator.backends.gpu.run_memory import RunMemory
from evaluator.backends.gpu.shared_memory import Memory, Placement
from evaluator.backends.gpu.tensors import synchronize
from evaluator.backends.session import (
    KernelLaunch,
    OutcomesTogether,
    PlanRun,
    Program,
    RunOutcome,
    UnsupportedError,
    Wanted,
)
from evaluator.errors import GpuError
from evaluator.problems.arrays import to_numpy

_CANARY_COUNT: Final = 1 << 16
_SLACK_S: Final = 0.5
"""How much longer than its time limit a run may take until its runner is ended: waking, flushing, answering."""
_FLUSH_L2_TIMES: Final = 3
_MIN_L2_BYTES: Final = 16 << 20


class UnfitError(GpuError):
    """The GPU did not pass its check, so no program was loaded."""


@dataclass
class Slot:
    """Memory that referee and runner share, and the runner that has it mapped."""

    memory: Memory
    holder: int | None = None


class GpuRuntime:
    """Where sessions run: one GPU's runners and the memory shared with them. One session at a time."""

    def __init__(
        self,
        pool: RunnerPool,
        make_memory: Callable[[int], Memory],
        free_bytes: Callable[[], int],
        jobs_per_runner: int = 1,
        own_checks: checks.DeviceChecks | None = None,
        runs_together: int = 1,
    ) -> None:
        """`own_checks`: device code of ours that writes and looks; without it, array code does. `runs_together`: how
        many runs are launched together at most.
        """
        self.pool = pool
        self.runs_together = runs_together
        self.checks = own_checks
        self.jobs_per_runner = jobs_per_runner
        self.quarantine: str | None = None
        """Why this GPU serves nobody for now."""
        self.free_bytes = free_bytes
        self._make_memory = make_memory
        self._slots: list[Slot] = []
        self._flush: Memory | None = None
        self._kept: Runner | None = None
        self._doubt = True
        self.deadly: set[str] = set()
        """Programs, by hash, that have ended a runner's process once."""

    def open(
        self, program: Program, steps_need_attributes: bool, size_bytes: int, leaves_traces: bool = False
    ) -> "GpuSession":
        """A session for `program`, with shared memory of at least `size_bytes`. Raises GpuError, UnsupportedError.

        `leaves_traces`: it uses memory of the context that nothing can clear, so nobody comes after it there.
        """
        if self._doubt:
            self._reassure()
        runner = self._runner()
        try:
            slot = self._slot(runner, size_bytes)
            return GpuSession(self, runner, slot, program, steps_need_attributes, leaves_traces)
        except (RunnerHungError, RunnerError) as error:
            self.discard(runner)
            raise gpu_fault("The program could not be loaded", error) from error
        except BaseException:
            self.discard(runner)
            raise

    def give_back(self, runner: Runner, spotless: bool) -> None:
        """After a session: keep the runner for the next one, or let it end."""
        runner.jobs += 1
        if spotless and runner.jobs < self.jobs_per_runner:
            try:
                runner.ask({"order": "unload"})
                self._kept = runner
                return
            except (RunnerError, RunnerHungError, GpuError):
                self.discard(runner)
        else:
            self.pool.release(runner)

    def discard(self, runner: Runner) -> None:
        """End a runner that faulted or hung; the GPU is checked before anyone else may use it."""
        self._doubt = True
        try:
            self.pool.end(runner)
        except GpuError as fault:
            self.quarantine = str(fault)
            raise

    def close(self) -> None:
        """End everything and give the memory back."""
        self.pool.close()
        for memory in (*(slot.memory for slot in self._slots), *filter(None, [self._flush])):
            memory.close()
        self._slots.clear()
        self._flush = None

    def _runner(self) -> Runner:
        kept, self._kept = self._kept, None
        return kept or self._fresh_runner()

    def _fresh_runner(self) -> Runner:
        runner = self.pool.take()
        try:
            if self._flush is None:
                self._flush = self._make_memory(_FLUSH_L2_TIMES * max(int(runner.facts["l2_bytes"]), _MIN_L2_BYTES))
                self._flush.content.fill_(0)
                synchronize(self._flush.content)
            _hand_over(runner, "flush", self._flush)
        except (RunnerHungError, RunnerError) as error:
            self.discard(runner)
            raise gpu_fault("What flushes the L2 could not be mapped", error) from error
        except BaseException:
            self.discard(runner)
            raise
        return runner

    def _slot(self, runner: Runner, size_bytes: int) -> Slot:
        """Memory for this runner: what it has mapped, or some that nobody has mapped any more."""
        for slot in self._slots:
            if slot.holder == runner.pid and slot.memory.size_bytes >= size_bytes:
                return slot
        free = [slot for slot in self._slots if slot.holder in (None, runner.pid) or self.pool.has_ended(slot.holder)]
        if not free and len(self._slots) >= 2:
            oldest = self._slots[0]
            assert oldest.holder is not None
            self.pool.await_end(oldest.holder)
            free = [oldest]
        slot = self._large_enough(free, size_bytes)
        for other in self._slots:
            if other.holder == runner.pid:
                other.holder = None  # a runner has one arena: mapping this one unmaps that one
        slot.holder = runner.pid
        self._slots.append(slot)  # the longest unused one comes first
        _hand_over(runner, "arena", slot.memory)
        return slot

    def _large_enough(self, free: list[Slot], size_bytes: int) -> Slot:
        for slot in free:
            if slot.memory.size_bytes >= size_bytes:
                self._slots.remove(slot)
                return slot
        for slot in free:
            self._slots.remove(slot)
            slot.memory.close()
        return Slot(self._make_memory(_rounded_up(size_bytes)))

    def _reassure(self) -> None:
        """Let a fresh runner compute something that is known: raises GpuError, and quarantines, where it is wrong."""
        runner = self._fresh_runner()
        try:
            slot = self._slot(runner, 4 * _CANARY_COUNT)
            factor = secrets.randbelow(1 << 31) | 1
            slot.memory.content.fill_(0)
            synchronize(slot.memory.content)
            runner.ask({"order": "check", "offset": 0, "count": _CANARY_COUNT, "factor": factor})
            written = to_numpy(slot.memory.content[: 4 * _CANARY_COUNT])
            right = np.arange(_CANARY_COUNT, dtype=np.uint64) * factor % (1 << 32)
            if not np.array_equal(written.view(np.uint32), right.astype(np.uint32)):
                raise GpuError("The GPU computed a known sum wrong.", "Look at its ECC errors, and replace it.")
        except (RunnerError, RunnerHungError, GpuError) as error:
            failed = gpu_fault("The GPU failed its check", error)
            self.quarantine = str(failed)
            self.pool.end(runner)
            raise UnfitError(str(failed), failed.remedy) from error
        self.quarantine = None
        self._doubt = False
        self.pool.release(runner)


def _hand_over(runner: Runner, purpose: str, memory: Memory) -> None:
    descriptor = memory.descriptor()
    try:
        runner.ask({"order": purpose, "bytes": memory.size_bytes}, descriptors=(descriptor,))
    finally:
        os.close(descriptor)


class GpuSession:
    """One program in one runner."""

    reorders = False
    schedules = False
    shares_memory = False
    counts_instructions = False
    free_registers: Mapping[str, int | None] = MappingProxyType({})
    """A GPU has its own."""
    unset_lines: tuple[int, ...] = ()

    def __init__(
        self, runtime: GpuRuntime, runner: Runner, slot: Slot, program: Program, attributes: bool, leaves_traces: bool
    ) -> None:
        self._runtime, self._runner, self._slot = runtime, runner, slot
        self._memory = RunMemory(slot.memory, runtime.checks)
        self.looks = runtime.checks is not None
        self._entries = {entry.symbol: entry for entry in program.entries}
        self._prints = re.search(r"\bvprintf\b", program.ptx) is not None
        # What outlives a program on a device beside its memory: the heap, and the stack's and the printer's buffers.
        traces = re.search(r"\b(vprintf|malloc|__assertfail)\b|\.local\b", program.ptx)
        self._spotless = not leaves_traces and traces is None
        self._alive = True
        self._identity = hashlib.sha256(program.cubin).hexdigest()
        self._unloadable: Fault | None = None
        """Why the driver would not take the program."""
        self._plans: dict[object, int] = {}
        """The numbers of plans, by where their buffers are and what they do."""
        self._unanswered = 0
        """Plans that were sent to the runner, and that it has not yet said to be ready."""
        image = os.memfd_create("image")
        try:
            os.write(image, program.cubin)
            order = {"order": "load", "attributes": attributes}
            runner.ask(order, descriptors=(image,))
        except RunnerError as fault:
            if fault.error == "CUDA_ERROR_NO_BINARY_FOR_GPU" or "no kernel image" in str(fault):
                raise UnsupportedError(f"an image for {program.arch} on this GPU") from fault
            self._unloadable = fault_of(fault, None, runtime.free_bytes)
        finally:
            os.close(image)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._alive:
            return
        self._alive = False
        if error is not None or not self._is_settled():
            self._runtime.discard(self._runner)
        else:
            self._runtime.give_back(self._runner, self._spotless)

    def run(self, run: PlanRun) -> RunOutcome:
        """Write the contents, launch, take over. Raises GpuError."""
        if not self._alive:
            raise GpuError("The runner of this session is gone.", "The job can be tried again.")
        if self._unloadable is not None:
            self._die()
            return RunOutcome({}, self._unloadable)
        placement = self._memory.placement((run,))
        (plan,) = self._plans_of((run,), placement)
        if run.steps:
            self._memory.write((run,), placement)
        else:
            self._memory.leave()
        self._await_plans()
        started_us = time.perf_counter_ns() / 1000
        wanted: Wanted | None = None
        following: tuple[PlanRun, ...] = ()
        try:
            self._runner.tell({**self._go(plan), "held": run.quiet})
            if run.wanted is not None and not run.quiet:
                wanted = run.wanted()
            if run.following is not None and run.look and self.looks:
                following = run.following()
            waits_us = time.perf_counter_ns() / 1000
            left_s = run.time_limit_s + _SLACK_S - (waits_us - started_us) / 1e6
            answer = self._runner.answer("go", max(0.0, left_s))
        except (RunnerHungError, RunnerError, RunnerDiedError) as error:
            return self._not_ended(run, run.time_limit_s, error)
        ended_us = time.perf_counter_ns() / 1000
        outcome = _ended(answer, ended_us - started_us)
        # What the referee does meanwhile is not the program's; nor is less than what was waited for.
        own_us = min(ended_us - started_us, max(float(answer["host_us"]), ended_us - waits_us))
        outcome = replace(outcome, own_s=own_us / 1e6)
        if not run.look:
            return outcome
        if run.wanted is not None and wanted is None:
            wanted = run.wanted()
        self._plan_ahead(following)
        seen = self._memory.look((run,), placement, (wanted,), following)
        if seen is None:
            taken_over = self._memory.taken_over(run, placement.whole)
            trespass = self._memory.trespass(placement)
            return replace(outcome, contents=taken_over, fault=trespass and trespass[1])
        return replace(outcome, contents=seen.contents[0], looked=seen.looked[0])

    def compared(self, outputs: Mapping[str, Any], wanted: Wanted) -> Mapping[str, float] | None:
        """The largest error of each output over the allowed one, by device code of ours; waits once.

        None where there is none, or it does not know an output's type. The program may have ended.
        """
        own_checks = self._runtime.checks
        if own_checks is None or not own_checks.can_look(0, len(outputs)):
            return None
        compared = {
            name: checks.Compared(outputs[name], expected, wanted.tolerance)
            for name, expected in wanted.expected.items()
        }
        return own_checks.look((), compared)[1]

    def most_together(self, runs: Sequence[PlanRun]) -> int:
        """How many of these, from the first, can be launched together."""
        most = min(len(runs), self._runtime.runs_together)
        for number in range(1, most):
            more = runs[: number + 1]
            if not (self._memory.can_look(more) and self._memory.has_room(more)):
                return number
        return most

    def run_together(
        self,
        runs: tuple[PlanRun, ...],
        limit_s: float,
        wanted: Callable[[], Sequence[Wanted | None]],
        following: Callable[[], tuple[PlanRun, ...]],
    ) -> OutcomesTogether:
        """Write the contents of all, have all launched, look at all. Raises GpuError.

        The orders are sent at once and the runner obeys them one by one, so that each has its own answer: what it
        took, what it printed and how it failed. The GPU turns from the referee's process to the runner's and back
        once.
        """
        if not self._alive or self._unloadable is not None:
            return OutcomesTogether((self.run(runs[0]),))
        placement = self._memory.placement(runs)
        plans = self._plans_of(runs, placement)
        self._memory.write(runs, placement)
        self._await_plans()
        started_s = time.perf_counter()
        outcomes: list[RunOutcome] = []
        run, run_limit_s = runs[0], limit_s
        answers: Sequence[Wanted | None] = ()
        then: tuple[PlanRun, ...] = ()
        broken = None
        try:
            self._runner.tell_all([self._go(plan) for plan in plans])
            answers = wanted()
            then = following()
            since_s = waits_s = time.perf_counter()
            for run in runs:
                run_limit_s = max(0.0, min(run.time_limit_s, limit_s - (since_s - waits_s)))
                answer = self._runner.answer("go", run_limit_s + _SLACK_S)
                now_s = time.perf_counter()
                # Each has begun when the one before had ended, which was heard of later where nobody listened yet.
                own_s = max(float(answer["host_us"]) / 1e6, now_s - since_s)
                outcome = _ended(answer, 1e6 * max(own_s, now_s - started_s))
                outcomes.append(replace(outcome, own_s=min(own_s, now_s - started_s)))
                since_s = now_s
        except (RunnerHungError, RunnerError, RunnerDiedError) as error:
            # What the runs before it left is looked at once nothing runs any more.
            broken = self._not_ended(run, run_limit_s, error)
            then = ()
        if not outcomes:
            assert broken is not None
            return OutcomesTogether((broken,))
        if broken is None:
            self._plan_ahead(then)
        seen = self._memory.look(runs, placement, answers, then)
        assert seen is not None
        outside = None
        if not seen.within:
            outside = self._memory.trespass(placement) or self._memory.written_early(runs, placement)
            if outside is None:
                raise GpuError("The referee's own device code saw a write that nothing else sees.", "Try again.")
        ended = [
            replace(outcome, contents=contents, looked=looked)
            for outcome, contents, looked in zip(outcomes, seen.contents, seen.looked, strict=False)
        ]
        return OutcomesTogether((*ended, broken) if broken else tuple(ended), outside)

    def _go(self, plan: int) -> dict[str, Any]:
        return {"order": "go", "id": plan, "prints": self._prints}

    def _not_ended(self, run: PlanRun, limit_s: float, error: Exception) -> RunOutcome:
        """What a run left that did not end, and its runner neither; raises an error that is not the program's."""
        self._die()
        if isinstance(error, RunnerHungError):
            message = f"was still running when its time was up, after {limit_s:.3g} s"
            return RunOutcome({}, Fault(kind="watchdog", message=message))
        if isinstance(error, RunnerError):
            return RunOutcome({}, self._fault(error, run), printed=error.printed)
        # Once may be anything. A program whose every run ends the process that holds its context does it itself,
        # by writing over what the driver keeps in memory that the GPU can reach.
        assert isinstance(error, RunnerDiedError)
        if error.killed_from_outside:
            raise error
        if self._identity not in self._runtime.deadly:
            self._runtime.deadly.add(self._identity)
            raise error
        return RunOutcome({}, Fault(kind="context_destroyed", message="destroyed the process of its own context"))

    def _plan_ahead(self, following: tuple[PlanRun, ...]) -> None:
        """Have the runner prepare what comes next, while memory is looked at."""
        if following:
            self._plans_of(following, self._memory.placement(following))

    def _plans_of(self, runs: Sequence[PlanRun], placement: Placement) -> list[int]:
        """The number of each run's plan with the runner.

        A new one the runner prepares while memory is looked at and written. None is sent while a program runs:
        if that hangs, nobody receives it.
        """
        numbers = []
        for place, run in enumerate(runs):
            key = (placement.runs[place], placement.early[place], run.steps)
            if key not in self._plans:
                steps = placement.steps(place, run, self._entries)
                self._plans[key] = len(self._plans)
                self._runner.tell({"order": "plan", "id": self._plans[key], "steps": steps})
                self._unanswered += 1
            numbers.append(self._plans[key])
        return numbers

    def _await_plans(self) -> None:
        """Hear that all plans are ready. Raises GpuError."""
        while self._unanswered:
            self._unanswered -= 1
            try:
                self._runner.answer("plan")
            except (RunnerError, RunnerHungError) as error:
                raise gpu_fault("A plan could not be prepared", error) from error

    def _is_settled(self) -> bool:
        """Whether the runner is ready for other orders: it may still prepare a plan that nobody wants any more."""
        try:
            self._await_plans()
        except GpuError:
            return False
        return True

    def _die(self) -> None:
        self._alive = False
        self._runtime.discard(self._runner)

    def _fault(self, broken: RunnerError, run: PlanRun) -> Fault:
        """The runner's fault as a fact; raises GpuError where it is not the program's."""
        kernels = [step.symbol for step in run.steps if isinstance(step, KernelLaunch)]
        kernel = without_parameters(self._entries[kernels[0]].name) if len(set(kernels)) == 1 else None
        return fault_of(broken, kernel, self._runtime.free_bytes)


def _ended(answer: Mapping[str, Any], referee_us: float) -> RunOutcome:
    """What the runner told of a run that ended."""
    times_us = float(answer["event_us"]), float(answer["host_us"]), referee_us
    return RunOutcome({}, printed=str(answer.get("printed", "")), times_us=times_us)


def _rounded_up(size_bytes: int) -> int:
    """A size for shared memory that the next jobs will probably find large enough."""
    return max(64 << 20, 1 << (size_bytes - 1).bit_length())
