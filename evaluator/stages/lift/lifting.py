"""Lifting, as a whole: a source with an entry function in, and the plan at any sizes out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from common.contract import KernelResources, Settings
from common.launch_plan import RecordedLaunchPlan
from evaluator.backends.session import Program
from evaluator.disk_cache import Cache
from evaluator.errors import Ruling
from evaluator.problems.problem import Problem, Sizes
from evaluator.sandbox.sandbox import Sandbox
from evaluator.stages.compile.kernel_entries import launch_bounds
from evaluator.stages.compile.toolchain import Toolchain
from evaluator.stages.lift.binding import Binding, LiftRefusedError, bind, call_values
from evaluator.stages.lift.dialects import EntryFunction
from evaluator.stages.lift.host_program import HostBuild, HostProgram
from evaluator.stages.lift.host_runs import HostCall, record
from evaluator.stages.lift.recorded_steps import plan_of
from evaluator.stages.lift.recording import Recording, Refusal, ruling_of
from evaluator.stages.lift.target_device import device_line, kernel_lines

Scalars = Mapping[str, float]


@dataclass(frozen=True)
class Lifted:
    """Host code that can be recorded at any sizes of its problem."""

    problem: Problem
    program: Program
    entry: EntryFunction
    binding: Binding
    built: HostProgram
    described: str
    """Device and kernels, as the recorder reads them."""
    settings: Settings
    sandbox: Sandbox

    def plans_at(self, wanted: Sequence[tuple[Sizes, Scalars]]) -> list[RecordedLaunchPlan | Ruling]:
        """The plan at each of these, up to the first that cannot be had, whose ruling is the last.

        Raises InfrastructureError.
        """
        calls: list[HostCall] = []
        refused: Ruling | None = None
        for sizes, scalars in wanted:
            try:
                calls.append(self._call(sizes, scalars))
            except LiftRefusedError as refusal:
                refused = there(refusal.ruling, sizes)
                break
        recorded = record(
            self.built.host, self.built.runs, self.described, calls, self.settings, self.sandbox, self.entry.name
        )
        found: list[RecordedLaunchPlan | Ruling] = []
        for (sizes, _), one in zip(wanted, recorded, strict=False):
            try:
                if isinstance(one, LiftRefusedError):
                    raise one
                found.append(self._plan(*one))
            except LiftRefusedError as refusal:
                return [*found, there(refusal.ruling, sizes)]
        return [*found, *([refused] if refused else [])]

    def _call(self, sizes: Sizes, scalars: Scalars) -> HostCall:
        tensors = (*self.problem.inputs, *self.problem.outputs)
        bytes_of = tuple(prod(tensor.shape_at(sizes)) * tensor.dtype.size_bytes for tensor in tensors)
        parameters = self.built.signature.parameters
        return HostCall(bytes_of, tuple(call_values(self.problem, self.binding.names, parameters, sizes, scalars)))

    def _plan(self, one: Recording | Refusal, other: Recording | Refusal) -> RecordedLaunchPlan:
        names = {entry.symbol: entry.name for entry in self.program.entries}
        for each in (one, other):
            if isinstance(each, Refusal):
                raise ruling_of(each, names)
        assert isinstance(one, Recording)
        assert isinstance(other, Recording)
        return plan_of(self.problem, self.program.entries, one, other, self.binding.initial)


def there(ruling: Ruling, sizes: Sizes) -> Ruling:
    """The same, with where it was."""
    at = ", ".join(f"{name} = {size}" for name, size in sizes.items())
    return replace(ruling, message=f"{ruling.message.removesuffix('.')} (at {at}).")


def lift(
    source: str,
    entry: EntryFunction,
    problem: Problem,
    program: Program,
    kernels: Sequence[KernelResources],
    settings: Settings,
    toolchain: Toolchain,
    sandbox: Sandbox,
    cache: Cache,
) -> Lifted | Ruling:
    """Compile the host code of `source`, whose kernels are `program`, and bind it to the problem.

    Raises InfrastructureError.
    """
    try:
        built = HostBuild(source, entry, settings, program.arch, toolchain, sandbox, cache).program()
        binding = bind(problem, entry, built.signature)
    except LiftRefusedError as refusal:
        return refusal.ruling
    bounds = dict(launch_bounds(program.ptx))
    lines = kernel_lines(program.entries, kernels, bounds, program.arch)
    described = "\n".join((device_line(program.arch), str(len(lines)), *lines))
    return Lifted(problem, program, entry, binding, built, described, settings, sandbox)
