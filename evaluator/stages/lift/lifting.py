"""Lifting, as a whole: a source with host code in, and the plan at any sizes out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from common.contract import KernelResources, Settings
from common.launch_plan import RecordedLaunchPlan
from common.wire import Wire
from evaluator.backends.session import Program
from evaluator.disk_cache import Cache
from evaluator.errors import Ruling
from evaluator.problems.problem import Problem, Sizes, sizes_in_words
from evaluator.sandbox.sandbox import Sandbox
from evaluator.stages.compile.kernel_entries import launch_bounds
from evaluator.stages.compile.toolchain import Beside, Toolchain
from evaluator.stages.lift.binding import HostSignature, LiftRefusedError, adds_to_memory, bind, call_values
from evaluator.stages.lift.calls.process_calls import (
    ProcessCalls,
    Scalars,
    calls_behind,
    fails_before,
    refused_behind,
)
from evaluator.stages.lift.calls.repeated_calls import CallForm, RepeatedCalls
from evaluator.stages.lift.dialects import EntryFunction
from evaluator.stages.lift.extension.binding import ExtensionSignature, bind_extension
from evaluator.stages.lift.extension.headers import FLAGS, beside_of, files_for_runtime
from evaluator.stages.lift.host_program import (
    HostBuild,
    HostForm,
    HostProgram,
    form_of_entry,
    headers_of_entry,
)
from evaluator.stages.lift.host_runs import HostCall, Recorded, RecordingSandbox, bytes_of_tensors, record
from evaluator.stages.lift.memory_uses import MemoryUses
from evaluator.stages.lift.recording import Recording, Refusal, ruling_of
from evaluator.stages.lift.target_device import device_line, kernel_lines


@dataclass(frozen=True)
class BoundHostCode:
    """What host code is called with, and gives back."""

    said: str
    """In words."""
    calls_at: Callable[[Sequence[ProcessCalls]], list[HostCall | LiftRefusedError]]
    """Of each of these, up to the first that cannot be had. Raises InfrastructureError."""
    initial: tuple[tuple[str, str], ...] = ()
    """Inputs whose contents an output has before the call, and that output; no name stands for zeros."""
    returns: bool = False
    """Whether it has to return the outputs."""
    adds: bool = True
    """Whether an output that has zeros before the call needs them, as far as the source says."""


@dataclass(frozen=True)
class HostCode:
    """The host code of one source, in its dialect."""

    source: str
    """As it was submitted."""
    text: str
    """Of C++, before headers stand for others."""
    form: HostForm
    bind: Callable[[Problem, Wire], BoundHostCode]
    """From what the compiled host code says of itself. Raises LiftRefusedError."""
    recordings: RecordingSandbox | None = None
    """Whose time is used up already in part, to learn what to call."""

    @property
    def for_kernels(self) -> Beside | None:
        """With what its kernels are compiled; None for the plain source."""
        if self.form.signature is not HostSignature:
            return self.form.beside
        headers = headers_of_entry(self.source)
        return Beside(self.source, headers) if headers else None


def each(
    calls_of: Callable[[ProcessCalls], HostCall],
) -> Callable[[Sequence[ProcessCalls]], list[HostCall | LiftRefusedError]]:
    """One process after another."""

    def calls_at(processes: Sequence[ProcessCalls]) -> list[HostCall | LiftRefusedError]:
        found: list[HostCall | LiftRefusedError] = []
        for one in processes:
            try:
                found.append(calls_of(one))
            except LiftRefusedError as refusal:
                return [*found, refusal]
        return found

    return calls_at


def code_of_entry(source: str, entry: EntryFunction) -> HostCode:
    """Of a file with `solve(…)` or `solution(…)`."""

    def bound(problem: Problem, signature: Wire) -> BoundHostCode:
        assert isinstance(signature, HostSignature)
        found = bind(problem, entry, signature)

        def calls_of(process: ProcessCalls) -> HostCall:
            values: list[str] = []
            for call in process.each:
                values += ["b", *call_values(problem, found.names, signature.parameters, *call, own=found.own)]
            return HostCall(bytes_of_tensors(problem, *process.sizes_of_sets), tuple(values))

        return BoundHostCode(found.said, each(calls_of), found.initial, adds=adds_to_memory(source))

    return HostCode(source, source, form_of_entry(source, entry), bound)


def code_of_extension(source: str) -> HostCode:
    """Of a file with `PYBIND11_MODULE`. Raises HeaderNotCoveredError."""

    def bound(problem: Problem, signature: Wire) -> BoundHostCode:
        assert isinstance(signature, ExtensionSignature)
        found = bind_extension(problem, source, signature)
        outputs = {tensor.name for tensor in problem.outputs}
        return BoundHostCode(
            found.said,
            each(lambda process: found.calls_of(problem, process)),
            returns=not outputs <= set(found.names),
        )

    return HostCode(source, source, form_of_extension(source, "forward"), bound)


def form_of_extension(text: str, called: str, flags: tuple[str, ...] = FLAGS) -> HostForm:
    """How an extension becomes a program. Raises HeaderNotCoveredError."""
    parts = ("tensors", "extension")
    return HostForm(beside_of(text, flags), parts, files_for_runtime(), ExtensionSignature, called)


@dataclass(frozen=True)
class Lifted:
    """Host code that can be recorded at any sizes of its problem."""

    problem: Problem
    program: Program
    called: str
    bound: BoundHostCode
    built: HostProgram
    described: str
    """Device and kernels, as the recorder reads them."""
    settings: Settings
    sandbox: RecordingSandbox
    published: Sequence[Sizes]
    """Where a plan is timed, and shown: it has there what one call does, once."""

    @cached_property
    def uses(self) -> MemoryUses:
        """What the kernels read and write."""
        return MemoryUses(self.program.ptx)

    def plans_at(self, wanted: Sequence[tuple[Sizes, Scalars]]) -> list[RecordedLaunchPlan | Ruling]:
        """The plan at each of these, up to the first that cannot be had, whose ruling is the last.

        Raises InfrastructureError.
        """
        behind = calls_behind(wanted, lambda sizes: sum(bytes_of_tensors(self.problem, sizes)), self.published)
        processes = [*(ProcessCalls(*point) for point in wanted), *behind.values()]
        asked = self.bound.calls_at(processes)
        calls = [one for one in asked if isinstance(one, HostCall)]
        refused: Ruling | None = None
        if len(calls) < len(wanted) and isinstance(asked[-1], LiftRefusedError):
            refused = there(asked[-1].ruling, wanted[len(asked) - 1][0])
        try:
            recorded = record(
                self.built.host, self.built.runs, self.described, calls, self.settings, self.sandbox, self.called
            )
        except LiftRefusedError as refusal:
            return [refusal.ruling]
        # The Python of some dialects may refuse the second call of a process itself.
        ended = [one for one in asked[len(wanted) :] if isinstance(one, LiftRefusedError)]
        later = dict(zip(behind, [*recorded[len(wanted) :], *ended], strict=False))
        found: list[RecordedLaunchPlan | Ruling] = []
        for number, ((sizes, _), one) in enumerate(zip(wanted, recorded, strict=False)):
            try:
                found.append(self._plan(one, sizes, behind.get(number), later.get(number)))
            except LiftRefusedError as refusal:
                return [*found, there(refusal.ruling, sizes)]
        return [*found, *([refused] if refused else [])]

    def _plan(
        self,
        recorded: Recorded | LiftRefusedError,
        sizes: Sizes,
        behind: ProcessCalls | None,
        later: Recorded | LiftRefusedError | None,
    ) -> RecordedLaunchPlan:
        """At these sizes. `later`: what was recorded `behind` a call at others, where anything was."""
        shapes = {tensor.name: tensor.shape_at(sizes) for tensor in self.problem.outputs}
        form = CallForm(
            self.problem,
            self.program.entries,
            self.uses,
            self.bound.initial,
            shapes if self.bound.returns else None,
            self.bound.adds,
        )
        calls = RepeatedCalls(form, *self._recordings(recorded))
        plan = calls.plan(again=sizes not in self.published)
        if behind is None or later is None or fails_before(later):
            return plan
        with refused_behind(behind):
            return calls.with_call_behind(plan, behind, *self._recordings(later))

    def _recordings(self, recorded: Recorded | LiftRefusedError) -> tuple[Recording, Recording]:
        """Both, where there are any. Raises LiftRefusedError."""
        if isinstance(recorded, LiftRefusedError):
            raise recorded
        names = {entry.symbol: entry.name for entry in self.program.entries}
        one, other = recorded
        for each in recorded:
            if isinstance(each, Refusal):
                raise ruling_of(each, names)
        assert isinstance(one, Recording)
        assert isinstance(other, Recording)
        return one, other


def there(ruling: Ruling, sizes: Sizes) -> Ruling:
    """The same, with where it was."""
    return replace(ruling, message=f"{ruling.message.removesuffix('.')} (at {sizes_in_words(sizes, ' = ')}).")


def lift(
    code: HostCode,
    problem: Problem,
    program: Program,
    kernels: Sequence[KernelResources],
    settings: Settings,
    toolchain: Toolchain,
    sandbox: Sandbox,
    cache: Cache,
    published: Sequence[Sizes],
    compiled: bytes | None = None,
) -> Lifted | Ruling:
    """Compile host code, whose kernels are `program`, and bind it to the problem. Raises InfrastructureError.

    `compiled`: the host's object file, where it was made with the kernels.
    """
    try:
        build = HostBuild(code.source, code.form, settings, program.arch, toolchain, sandbox, cache, compiled)
        built = build.program()
        bound = code.bind(problem, built.signature)
    except LiftRefusedError as refusal:
        return refusal.ruling
    bounds = dict(launch_bounds(program.ptx))
    lines = kernel_lines(program.entries, kernels, bounds, program.arch)
    described = "\n".join((device_line(program.arch), str(len(lines)), *lines))
    return Lifted(
        problem,
        program,
        code.form.called,
        bound,
        built,
        described,
        settings,
        code.recordings or RecordingSandbox(sandbox),
        published,
    )
