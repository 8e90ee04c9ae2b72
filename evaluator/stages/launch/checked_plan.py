"""A plan that fits, and its numbers at one size: buffers, launches, fills and copies, within hardware limits."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType
from typing import Annotated, Final, Literal, TypeAlias

from common.contract import Phase, Status
from common.expressions import ExpressionError, caret, evaluate_expression
from common.gpu_limits import GPU_LIMITS, MAX_BLOCK, MAX_BLOCK_THREADS, MAX_CLUSTER_BLOCKS, MAX_GRID, limits_of
from common.launch_directives import as_directives
from common.launch_plan import Copy, Extent, Fill, Launch, LaunchPlan, OtherOrder, Step
from common.wire import DType
from evaluator.backends.session import (
    Buffer,
    BufferCopy,
    BufferFill,
    KernelLaunch,
    Packed,
    Parameter,
    Pointer,
    SubmissionCall,
)
from evaluator.errors import Ruling
from evaluator.problems.arrays import Array, as_elements
from evaluator.problems.catalogue import ProblemById
from evaluator.problems.problem import Arrays, Sizes, sizes_in_words
from evaluator.stages.compile.resources import fitting_blocks
from evaluator.stages.launch.arguments import ArgumentError, pack, takes_number
from evaluator.stages.launch.calls import Call
from evaluator.stages.launch.recorded_plans import AS_TABLE, RecordedPlan, RecordedPlans

PlanSource: TypeAlias = Literal["json", "directives", "inferred", "recorded", "host"]
Role: TypeAlias = Literal["input", "output", "temporary"]


class PlanRefusedError(Exception):
    """A plan that cannot be used: becomes a Ruling before it reaches a caller of a stage."""

    def __init__(self, message: str, hint: str | None = None, status: Status = Status.INVALID_SUBMISSION) -> None:
        self.ruling = Ruling(status, Phase.LAUNCH, message, hint)


@dataclass(frozen=True)
class BufferFacts:
    """One buffer of a run, without its content."""

    name: str
    role: Role
    dtype: DType
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of all elements."""
        return prod(self.shape) * self.dtype.size_bytes


@dataclass(frozen=True)
class SizedPlan:
    """A plan at one size: the buffers (inputs, outputs, temporaries) and the steps with every number known."""

    buffers: tuple[BufferFacts, ...]
    steps: tuple[KernelLaunch | BufferFill | BufferCopy, ...]
    host_call: SubmissionCall | None = None
    """In the host tier, in the place of steps."""
    orders: tuple[OtherOrder, ...] = ()
    """Others in which a GPU may run the steps."""
    prepared: int = 0
    """How many steps a call that follows at once does without: it meets what the call before it left."""
    call: str = ""
    """Which call of a process it is of, in words, where host code does not do the same at each."""
    others: tuple["SizedPlan", ...] = ()
    """Those of other calls of the same process, each of which must be right as well."""

    @property
    def threads(self) -> int:
        """Of all launches together."""
        return sum(prod(step.grid) * prod(step.block) for step in self.steps if isinstance(step, KernelLaunch))

    def buffers_with(self, inputs: Arrays) -> tuple[Buffer, ...]:
        """The buffers of a run whose inputs hold these contents; everything else is undefined."""
        return tuple(
            Buffer(b.name, b.role, b.size_bytes, b.dtype.size_bytes, inputs[b.name] if b.role == "input" else None)
            for b in self.buffers
        )

    def tensors(self, contents: Mapping[str, Array], role: Role = "output") -> dict[str, Array]:
        """What the outputs (or the inputs) hold after a run, in their dtypes and shapes."""
        chosen = (buffer for buffer in self.buffers if buffer.role == role)
        return {one.name: as_elements(contents[one.name], one.dtype, one.shape) for one in chosen}


@dataclass(frozen=True)
class CheckedPlan:
    """A plan that fits the problem and the compiled kernels, at no particular size."""

    problem: ProblemById
    plan: LaunchPlan
    plan_source: PlanSource
    binding: str
    """How parameters were bound to tensors and sizes, in words."""
    arch: str
    calls: Mapping[int, Call]
    """By the index of the step."""
    source_lines: int = 0
    """Lines of the source; a line beyond is the claim of a `#line`. 0 where it is not known."""
    recorded: Annotated[RecordedPlans, AS_TABLE] | None = None
    """What stands for `plan` and `calls` at each set of sizes, where host code was recorded anew for each."""
    inferred_advice: str = ""
    """What to say of a plan that was inferred where its answer is wrong: empty where another is unlikely to help."""
    unread_scalars: tuple[str, ...] = ()
    """Those that trials vary and no kernel reads; empty where that is not known: of recorded host code."""

    @property
    def static_shared_bytes(self) -> Mapping[str, int]:
        """Of each kernel that it launches, by the demangled name."""
        return {call.entry.name: call.static_shared_bytes for call in self.calls.values()}

    def plan_at(self, sizes: Sizes) -> LaunchPlan:
        """The plan at sizes where it was carried out."""
        there = self.recorded.at(sizes, {}) if self.recorded is not None else None
        return self.plan if there is None or isinstance(there, Ruling) else there.plan

    @property
    def steps(self) -> tuple[Step, ...]:
        """Those of the plan, at all sizes that are known."""
        if self.recorded is None:
            return self.plan.steps
        known = (one for one in self.recorded.known.values() if not isinstance(one, Ruling))
        return tuple(step for one in known for step in one.plan.steps)

    @property
    def exchanged(self) -> str | None:
        """Two arguments of a launch that look exchanged, and what to do.

        Either parameter is named as what the other gets; or an input goes where the kernel may write, and an output
        where it may only read.
        """
        if self.recorded is not None:
            return None  # what its host code does with them is up to it
        for call in self.calls.values():
            given = [v.buffer if isinstance(v, Pointer) else str(v) for v in call.values]
            taken = [(parameter.name, parameter.kind) for parameter in call.entry.parameters]
            for (one, kind), gets in zip(taken, given, strict=True):
                if one != gets and (gets, kind) in taken and given[taken.index((gets, kind))] == one:
                    return (
                        f"In {call.place} the parameter {one} gets {gets}, and {gets} gets {one}: exchange the two "
                        "in `args` if that is not meant."
                    )
            if (told := self._turned_round(call)) is not None:
                return told
        return None

    def _turned_round(self, call: Call) -> str | None:
        """An input that goes where the kernel may write, and an output that goes where it may only read."""
        inputs, outputs = ({t.name for t in each} for each in (self.problem.inputs, self.problem.outputs))
        to_write = [one for one in call.pointers if one[1].may_write and one[2] in inputs]
        to_read = [one for one in call.pointers if not one[1].may_write and one[2] in outputs]
        if not to_write or not to_read:
            return None
        (number, written, name), (other, read, output) = to_write[0], to_read[0]
        return (
            f"In {call.place} the input {name} goes to `{written.type} {written.name}` (argument {number}), and the "
            f"output {output} to `{read.type} {read.name}` (argument {other}): exchange the two in `args`."
            f"{_as_line(self.plan, name, output) if self.plan_source == 'inferred' else ''}"
        )

    def writer_of(self, name: str) -> str | None:
        """Through which argument a kernel may write to this buffer, in words; None where there is none."""
        for call in self.calls.values():
            for number, parameter, buffer in call.pointers:
                if buffer == name and parameter.may_write:
                    return f"{call.place} gives {name} to `{parameter.type} {parameter.name}` (argument {number})"
        return None

    def at(
        self, sizes: Sizes, memory_bytes: int = 8 << 30, scalars: Mapping[str, float] = MappingProxyType({})
    ) -> SizedPlan | Ruling:
        """The buffers and steps at `sizes`, with other values for the named `scalars`.

        A Ruling where a number is out of the range that it must be in.

        All buffers together must fit in `memory_bytes`. Raises InfrastructureError where nothing was recorded for
        these sizes and nothing can be.
        """
        if self.recorded is not None:
            there = self.recorded.at(sizes, scalars)
            if isinstance(there, Ruling):
                return there
            return self._of_recorded(there, sizes, memory_bytes, scalars)
        try:
            return _Sized(self, sizes, scalars).sized_plan(memory_bytes)
        except PlanRefusedError as refused:
            return refused.ruling

    def _of_recorded(
        self, there: RecordedPlan, sizes: Sizes, memory_bytes: int, scalars: Mapping[str, float]
    ) -> SizedPlan | Ruling:
        alone = replace(self, plan=there.plan, calls=there.calls, recorded=None)
        sized_plan = alone.at(sizes, memory_bytes, scalars)
        if isinstance(sized_plan, Ruling):
            return sized_plan
        others: list[SizedPlan] = []
        for one in there.others:
            other = self._of_recorded(one, sizes, memory_bytes, scalars)
            if isinstance(other, Ruling):
                return other
            others.append(other)
        return replace(
            sized_plan, orders=there.orders, prepared=there.prepared, call=there.call, others=tuple(others)
        )


def _as_line(plan: LaunchPlan, one: str, other: str) -> str:
    """The plan as lines, with these two exchanged in `args`."""
    renamed = {one: other, other: one}
    steps = [
        step.model_copy(update={"args": tuple(renamed.get(str(arg), arg) for arg in step.args)})
        for step in plan.steps
        if isinstance(step, Launch)
    ]
    return f" No plan was given; this line says so:\n{as_directives(plan.model_copy(update={'steps': tuple(steps)}))}"


class _Sized:
    """One evaluation of a plan at one size."""

    def __init__(self, checked_plan: CheckedPlan, sizes: Sizes, scalars: Mapping[str, float]) -> None:
        self.checked_plan = checked_plan
        values = [(s, scalars.get(s.name, s.value)) for s in checked_plan.problem.scalars]
        self.names = {**{s.name: int(value) for s, value in values if not s.dtype.is_float}, **sizes}
        self.floats = {s.name: rounded(value, s.dtype) for s, value in values if s.dtype.is_float}
        self.where = f"at {sizes_in_words(sizes, ' = ')}"

    def sized_plan(self, memory_bytes: int) -> SizedPlan:
        buffers = self._buffers(memory_bytes)
        sizes = {buffer.name: buffer for buffer in buffers}
        steps: list[KernelLaunch | BufferFill | BufferCopy] = []
        for index, step in enumerate(self.checked_plan.plan.steps):
            if isinstance(step, Launch):
                steps.append(self._launch(self.checked_plan.calls[index]))
            elif isinstance(step, Fill):
                steps.append(self._fill(f"step {index + 1} (fill {step.target})", step, sizes))
            elif step.size_bytes is not None:
                steps.append(self._copy(f"step {index + 1} (copy)", step, sizes))
            else:
                source, target = sizes[step.source].size_bytes, sizes[step.target].size_bytes
                if source != target:
                    raise self._refused(
                        f"step {index + 1} (copy)",
                        f"'{step.source}' has {source} bytes and '{step.target}' {target}: a copy needs equal sizes",
                    )
                steps.append(BufferCopy(step.source, step.target))
        return SizedPlan(buffers, tuple(steps))

    def _fill(self, place: str, step: Fill, buffers: Mapping[str, BufferFacts]) -> BufferFill:
        if step.data is None:
            return BufferFill(step.target, packed(place, step.value, buffers[step.target].dtype))
        pattern, size_bytes = bytes.fromhex(step.data), step.size_bytes
        if not step.variable:
            room = buffers[step.target].size_bytes
            size_bytes = room - step.offset_bytes if size_bytes is None else size_bytes
            self._check_stretch(place, step.target, step.offset_bytes, size_bytes, room)
            if size_bytes % len(pattern):
                raise self._refused(place, f"{size_bytes} bytes cannot be filled with a pattern of {len(pattern)}")
        elif size_bytes is None:
            raise self._refused(place, "a fill of a variable needs size_bytes")
        return BufferFill(step.target, pattern, step.offset_bytes, size_bytes, step.variable)

    def _copy(self, place: str, step: Copy, buffers: Mapping[str, BufferFacts]) -> BufferCopy:
        assert step.size_bytes is not None
        source = buffers[step.source].size_bytes
        self._check_stretch(place, step.source, step.source_offset_bytes, step.size_bytes, source)
        if not step.variable:
            target = buffers[step.target].size_bytes
            self._check_stretch(place, step.target, step.target_offset_bytes, step.size_bytes, target)
        offsets = step.source_offset_bytes, step.target_offset_bytes
        return BufferCopy(step.source, step.target, *offsets, step.size_bytes, step.variable)

    def _check_stretch(self, place: str, name: str, offset_bytes: int, size_bytes: int, room_bytes: int) -> None:
        if size_bytes <= 0 or offset_bytes + size_bytes > room_bytes:
            raise self._refused(
                place,
                f"bytes {offset_bytes} to {offset_bytes + size_bytes} of '{name}', which has {room_bytes} bytes",
            )

    def _refused(self, place: str, reason: str, hint: str | None = None) -> PlanRefusedError:
        return PlanRefusedError(f"{place}: {reason} ({self.where}).", hint)

    def _evaluate(self, place: str, text: Extent) -> int:
        try:
            return evaluate_expression(text, self.names)
        except ExpressionError as error:
            shown = caret(error.text, error.position)
            raise PlanRefusedError(f"{place}: {error.reason} ({self.where})\n{shown}") from None

    def _buffers(self, memory_bytes: int) -> tuple[BufferFacts, ...]:
        problem = self.checked_plan.problem
        tensors = [
            BufferFacts(t.name, role, t.dtype, tuple(self._evaluate(f"tensor '{t.name}'", e) for e in t.shape))
            for role, group in _ROLES
            for t in (problem.inputs if group == "inputs" else problem.outputs)
        ]
        needed = sum(buffer.size_bytes for buffer in tensors)
        if needed > memory_bytes:
            raise PlanRefusedError(
                f"The problem's own tensors take {_in_words(needed)} {self.where}, and the memory limit is "
                f"{_in_words(memory_bytes)}.",
                "Ask for smaller sizes.",
            )
        temporaries = []
        for temporary in self.checked_plan.plan.temporaries:
            place = f"temporary '{temporary.name}'"
            shape = tuple(self._evaluate(place, extent) for extent in temporary.shape)
            for text, extent in zip(temporary.shape, shape, strict=True):
                if extent <= 0:
                    quoted = caret(str(text), 0)
                    raise PlanRefusedError(
                        f"{place}: an extent must be positive, and it is {extent} ({self.where})\n{quoted}"
                    )
            temporaries.append(BufferFacts(temporary.name, "temporary", temporary.dtype, shape))
        extra = sum(buffer.size_bytes for buffer in temporaries)
        if needed + extra > memory_bytes:
            raise PlanRefusedError(
                f"The temporaries take {_in_words(extra)} {self.where}; beside the problem's own tensors "
                f"({_in_words(needed)}) the memory limit of {_in_words(memory_bytes)} leaves no room for them.",
                "Use smaller temporaries.",
            )
        return (*tensors, *temporaries)

    def _launch(self, call: Call) -> KernelLaunch:
        launch, place = call.launch, call.place
        grid = self._extents(f"{place}, grid", launch.grid, MAX_GRID)
        block = self._extents(f"{place}, block", launch.block, MAX_BLOCK)
        if prod(block) > MAX_BLOCK_THREADS:
            reason = f"a block has at most {MAX_BLOCK_THREADS} threads, and this one {prod(block)}"
            raise self._refused(place, reason, _TOO_LARGE["block"])
        if call.most_threads is not None and prod(block) > call.most_threads:
            raise self._refused(
                f"{place}, block",
                f"the kernel was compiled for blocks of at most {call.most_threads} threads (`__launch_bounds__`), "
                f"and this one has {prod(block)}: a GPU does not launch it",
                "Launch smaller blocks, or say larger `__launch_bounds__`.",
            )
        shared = self._evaluate(f"{place}, shared", launch.shared_bytes)
        most = limits_of(self.checked_plan.arch).shared_per_block_bytes
        if not 0 <= shared <= most - call.static_shared_bytes:
            static = f" beside {call.static_shared_bytes} static bytes" if call.static_shared_bytes else ""
            raise self._refused(
                f"{place}, shared",
                f"{shared} bytes of dynamic shared memory{static}: {self.checked_plan.arch} has {most} for a block",
                _less_shared(shared + call.static_shared_bytes) if shared > 0 else None,
            )
        taken = shared + call.static_shared_bytes
        fitting = fitting_blocks(call.registers, taken, prod(block), self.checked_plan.arch)
        if not min(fitting.values()):
            lacking = min(fitting, key=lambda resource: fitting[resource])
            raise self._refused(
                f"{place}, block",
                f"not one block fits on a multiprocessor of {self.checked_plan.arch}, for want of {lacking}: it has "
                f"{prod(block)} threads of {call.registers} registers",
                "Use smaller blocks, or say `__launch_bounds__(threads)`: so the compiler keeps to fewer registers.",
            )
        if launch.cooperative and self.checked_plan.arch in _ARCHS_OF_MULTIPROCESSORS:
            archs = self.checked_plan.arch, _ARCHS_OF_MULTIPROCESSORS[-1]
            held = _MULTIPROCESSORS * max(
                min(fitting_blocks(call.registers, taken, prod(block), arch).values()) for arch in archs
            )
            if prod(grid) > held:
                raise self._refused(
                    f"{place}, grid",
                    f"a cooperative launch of {prod(grid):,} blocks, of which a GPU with {_MULTIPROCESSORS} "
                    f"multiprocessors holds {held:,} at once",
                    "Launch no more blocks than fit at once, and let each do more in a loop.",
                )
        cluster = None if launch.cluster is None else self._cluster(place, launch.cluster, grid)
        given = zip(call.values, call.launch.args, strict=True)
        now = [self.floats.get(argument.strip(), v) if isinstance(argument, str) else v for v, argument in given]
        values = zip(now, call.entry.parameters, strict=True)
        arguments = tuple(self._argument(f"{place}, argument {i}", v, p) for i, (v, p) in enumerate(values, 1))
        return KernelLaunch(call.entry.symbol, grid, block, shared, launch.cooperative, arguments, cluster)

    def _extents(self, place: str, extents: tuple[Extent, ...], most: tuple[int, int, int]) -> tuple[int, int, int]:
        values = [1, 1, 1]
        for axis, extent in enumerate(extents):
            values[axis] = value = self._evaluate(place, extent)
            if 0 < value <= most[axis]:
                continue
            reason = f"{'xyz'[axis]} must be 1 to {most[axis]}, and it is {value} ({self.where})"
            hint = "Use ceil_div, which rounds up." if value == 0 and "//" in str(extent) else None
            if value > most[axis]:
                hint = _TOO_LARGE.get(place.rsplit(", ", 1)[-1])
            raise PlanRefusedError(f"{place}: {reason}\n{caret(str(extent), 0)}", hint)
        return values[0], values[1], values[2]

    def _cluster(
        self, place: str, extents: tuple[Extent, ...], grid: tuple[int, int, int]
    ) -> tuple[int, int, int] | None:
        most = (MAX_CLUSTER_BLOCKS, MAX_CLUSTER_BLOCKS, MAX_CLUSTER_BLOCKS)
        cluster = self._extents(f"{place}, cluster", extents, most)
        if prod(cluster) > MAX_CLUSTER_BLOCKS:
            raise self._refused(f"{place}, cluster", f"a cluster has at most {MAX_CLUSTER_BLOCKS} blocks")
        for axis, blocks, size in zip("xyz", grid, cluster, strict=True):
            if blocks % size:
                raise self._refused(f"{place}, cluster", f"grid {axis} = {blocks} is not a multiple of {size}")
        return cluster if prod(cluster) > 1 else None

    def _argument(
        self, place: str, value: Pointer | Packed | float | str, parameter: Parameter
    ) -> Pointer | Packed | bytes:
        if isinstance(value, Packed) and not value.addresses:
            return value.data
        if isinstance(value, Pointer | Packed):
            return value
        if parameter.kind == "pointer":
            return bytes(parameter.size_bytes)
        taken = takes_number(parameter)
        if taken is None:
            raise AssertionError(f"{parameter.type} was let through by the type check")
        number = self._evaluate(place, value) if isinstance(value, str) else value
        try:
            return pack(number, taken)
        except ArgumentError as misfit:
            quoted = f"\n{caret(value, 0)}" if isinstance(value, str) else ""
            reason = f"{misfit}, the type of `{parameter.type} {parameter.name}` ({self.where})"
            raise PlanRefusedError(f"{place}: {reason}{quoted}") from None


def _less_shared(needed_bytes: int) -> str:
    """What to do about too much dynamic shared memory, with the first architecture that has as much."""
    hint = "Use smaller tiles, or a `shared=` that does not grow with the sizes."
    able = [number for number, limits in GPU_LIMITS.items() if limits.shared_per_block_bytes >= needed_bytes]
    if not able:
        return hint
    most = GPU_LIMITS[able[0]].shared_per_block_bytes
    return f"{hint} Or compile for an architecture that has more: sm_{able[0]} has {most} (`--arch sm_{able[0]}`)."


_MULTIPROCESSORS: Final = 132
"""Of an H100 or H200; no GPU of an architecture up to theirs that is sold for computing has more."""
_ARCHS_OF_MULTIPROCESSORS: Final = ("sm_80", "sm_90")
_TOO_LARGE: Final = {
    "block": "Keep the block small whatever the sizes are: use more blocks, or let each thread do several elements.",
    "grid": "Put the extent that grows into x, which goes to 2147483647, or let each block do several tiles.",
}
_ROLES: Final[tuple[tuple[Role, str], ...]] = (("input", "inputs"), ("output", "outputs"))


def moved_bytes(sized_plan: SizedPlan | Ruling) -> tuple[int, ...]:
    """Read and written together by each fill and each copy of a plan."""
    if isinstance(sized_plan, Ruling):
        return ()
    sizes = {buffer.name: buffer.size_bytes for buffer in sized_plan.buffers}
    moved = []
    for step in sized_plan.steps:
        if isinstance(step, BufferFill):
            moved.append(sizes[step.buffer] - step.offset_bytes if step.size_bytes is None else step.size_bytes)
        elif isinstance(step, BufferCopy):
            moved.append(2 * (sizes[step.source] if step.size_bytes is None else step.size_bytes))
    return tuple(moved)


def rounded(value: float, dtype: DType) -> float:
    """`value` rounded once to a scalar's own dtype, so that a `double` parameter gets what a `float` one gets."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0]) if dtype is DType.FLOAT32 else value


def packed(place: str, value: float, dtype: DType) -> bytes:
    """`value` as one element of `dtype`. Raises PlanRefusedError, naming `place`."""
    try:
        return pack(value, dtype)
    except ArgumentError as misfit:
        raise PlanRefusedError(f"{place}: {misfit}.") from None


def _in_words(size_bytes: int) -> str:
    amount = float(size_bytes)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if amount < 1024:
            return f"{amount:.4g} {unit}"
        amount /= 1024
    return f"{amount:.4g} EiB"
