"""Two recordings of one call, at different made-up addresses, to the launch plan that both are."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from common.contract import Status
from common.launch_plan import (
    MAX_RECORDED_STEPS,
    Copy,
    Fill,
    Launch,
    OtherOrder,
    PlanError,
    RecordedLaunchPlan,
    Step,
    Temporary,
)
from common.wire import DType
from evaluator.backends.session import Entry, Parameter
from evaluator.problems.problem import Problem
from evaluator.stages.compile.kernel_names import shortest
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.calls.address_pairs import AddressPairs
from evaluator.stages.lift.calls.pinned_memory import parts_of
from evaluator.stages.lift.calls.recorded_arguments import ArgumentReader
from evaluator.stages.lift.calls.returned import Returned, unstable
from evaluator.stages.lift.calls.stream_order import (
    DEFAULT_STREAM,
    Issued,
    IssuedStep,
    StreamOrder,
    Touched,
    misuse,
    orders_left_open,
    touched,
    unawaited,
)
from evaluator.stages.lift.recording import (
    AnyRecorded,
    CallRecording,
    RecordedAllocation,
    RecordedCopy,
    RecordedFill,
    RecordedFree,
    RecordedLaunch,
    RecordedOrder,
)

_DTYPES: Final = {
    "float": DType.FLOAT32,
    "double": DType.FLOAT64,
    "__half": DType.FLOAT16,
    "__nv_bfloat16": DType.BFLOAT16,
    "int": DType.INT32,
    "unsigned int": DType.UINT32,
    "long long": DType.INT64,
    "unsigned long long": DType.UINT64,
}
_LIBRARIES: Final = {"cub": "CUB", "thrust": "Thrust", "cutlass": "CUTLASS"}


_OF_A_VERSION: Final = re.compile(r"(CUB|THRUST)_\d\w*")
"""A namespace inside theirs, whatever that is called: a program may wrap it, or give it another name."""


def _library_of(kernel: str) -> str | None:
    """The library of a kernel, by the namespaces in its name."""
    namespaces = re.split("[<(]", kernel.removeprefix("void "))[0].split("::")[:-1]
    plain = (_OF_A_VERSION.sub(lambda found: found[1].lower(), one.strip()) for one in namespaces)
    return next((_LIBRARIES[one] for one in plain if one in _LIBRARIES), None)


class PlanReader:
    """Reads both recordings of one call. Everything raises LiftRefusedError where they are no plan."""

    def __init__(
        self,
        problem: Problem,
        entries: Sequence[Entry],
        first: CallRecording,
        second: CallRecording,
        initial: Sequence[Copy | Fill] = (),
    ) -> None:
        self.problem, self.entries = problem, entries
        self.by_symbol = {entry.symbol: entry for entry in entries}
        self.inputs = frozenset(tensor.name for tensor in problem.inputs)
        self.first, self.second = first, second
        tensors = [tensor.name for tensor in (*problem.inputs, *problem.outputs)]
        shapes = [(one.bytes, one.variable) for one in first.buffers]
        if shapes != [(one.bytes, one.variable) for one in second.buffers] or len(shapes) < len(tensors):
            raise unstable("it allocates other memory")
        self.addresses = AddressPairs(first.buffers, second.buffers, first.of_others)
        self._argument = ArgumentReader(self.addresses, self._named, self._learn, self._called).argument
        self.names: list[str | None] = [*tensors, *[None] * (len(shapes) - len(tensors))]
        self.dtypes: dict[int, DType] = {}
        self.freed = set(first.freed)
        self.whole: dict[int, str] = {}
        """Allocations that are an output, by their number."""
        self.initial = initial
        taken = problem.parameter_names
        self.undefined = next(one for i in itertools.count(1) if (one := f"undefined{i}") not in taken)
        """A temporary that nobody writes."""
        self.undefined_bytes = 0
        """That it has, as far as it is needed."""
        self.order = StreamOrder(first.non_blocking)
        self.touched: list[Touched] = []
        self.issued: list[Issued] = []
        for step in initial:
            self._ordered(step, DEFAULT_STREAM)
        over = RecordedOrder(order="device")  # the contents that tensors have before the call
        self.issued.append(over)
        self.order.add(over)
        self.holds = {tensor.name: tensor.name for tensor in problem.outputs}
        """Outputs by the buffers that hold them when the call returns."""

    def steps(self, shapes: Mapping[str, tuple[int, ...]] | None) -> list[Step]:
        """What the call does; `shapes` are those of the outputs that it has to return."""
        returned = Returned(self.problem, shapes, self.first, self.second, self.addresses.place)
        self.whole = returned.whole
        for number, output in returned.whole.items():
            self.names[number] = output
        if self.first.non_blocking != self.second.non_blocking:
            raise unstable("it makes other streams")
        if len(self.first.steps) != len(self.second.steps):
            raise unstable("it does another number of launches, fills and copies")
        steps = [*self.initial, *self.read(zip(self.first.steps, self.second.steps, strict=True))]
        for output, number, offset, size in returned.copied:
            source = self._named(number, f"what is returned as {output},")
            steps.append(Copy(source=source, target=output, source_offset_bytes=offset, size_bytes=size))
            self._ordered(steps[-1], DEFAULT_STREAM)
            self.holds[source] = output
        if freed := [output for number, output in returned.whole.items() if number in self.freed]:
            self._named(next(iter(self.freed & set(returned.whole))), f"what is returned as {freed[0]},")
        return steps

    def read(self, pairs: Iterable[tuple[AnyRecorded, AnyRecorded]]) -> list[Step]:
        """Steps of both recordings as those of a plan."""
        return [step for pair in pairs for step in self._step(*pair)]

    def plan(self, steps: Sequence[Step], more: Sequence[Temporary] = ()) -> RecordedLaunchPlan:
        """The plan of these steps, with `more` temporaries beside those that were read."""
        if not any(isinstance(step, Launch | Fill | Copy) for step in steps):
            raise LiftRefusedError(
                Status.INVALID_SUBMISSION,
                "The host code launches nothing.",
                "Launch a kernel that writes the outputs, at every size.",
            )
        temporaries = tuple(
            Temporary(name=name, dtype=dtype, shape=(self.first.buffers[number].bytes // dtype.size_bytes,))
            for number, name in enumerate(self.names)
            if name is not None and number >= self._tensors and self.first.buffers[number].variable is None
            if number not in self.whole
            for dtype in (self.dtypes.get(number, DType.UINT8),)
        )
        if self.undefined_bytes:
            undefined = Temporary(name=self.undefined, dtype=DType.UINT8, shape=(self.undefined_bytes,))
            temporaries = (*temporaries, undefined)
        try:
            return RecordedLaunchPlan(temporaries=(*temporaries, *more), steps=tuple(steps))
        except (PlanError, ValueError) as error:
            raise LiftRefusedError(
                Status.INVALID_SUBMISSION,
                f"What the host code launches is no launch plan: {_reason(error, len(steps))}.",
                "docs/launch-plans.md says what a plan may hold.",
            ) from None

    @property
    def _tensors(self) -> int:
        return len(self.problem.inputs) + len(self.problem.outputs)

    def _step(self, one: object, other: object) -> Iterator[Step]:
        if isinstance(one, RecordedFree | RecordedAllocation | RecordedOrder) and one == other:
            self.issued.append(one)
            if isinstance(one, RecordedFree):
                self.freed.add(one.free)
            elif isinstance(one, RecordedOrder):
                self.order.add(one)
            return
        if isinstance(one, RecordedLaunch) and isinstance(other, RecordedLaunch):
            steps: list[Step] = [self._launch(one, other)]
        elif isinstance(one, RecordedFill) and isinstance(other, RecordedFill):
            steps = [*self._fill(one, other)]
        elif isinstance(one, RecordedCopy) and isinstance(other, RecordedCopy):
            steps = [self._copy(one, other)]
        else:
            raise unstable("it does other things in another order")
        for step in steps:
            self._ordered(step, one.stream, one.kernel if isinstance(one, RecordedLaunch) else "")
        yield from steps

    def _ordered(self, step: Step, stream: int, kernel: str = "") -> None:
        """Note where in the order of all streams a step is, and what it touches; `kernel`: by its symbol."""
        self.order.add_step(stream)
        parameters = self.by_symbol[kernel].parameters if kernel else ()
        self.touched.append(touched(step, parameters, self.inputs))
        self.issued.append(IssuedStep(self.touched[-1], stream))

    def orders(self) -> tuple[OtherOrder, ...]:
        """Others in which a GPU may run the steps.

        Raises LiftRefusedError where it may run one too late, or on memory that is not its own then.
        """
        if late := unawaited(self.order, self.touched, self.holds):
            step, output = late
            raise LiftRefusedError(
                Status.REJECTED,
                f"The host code returns while {step} may still be under way: it writes the output '{output}', and "
                "nothing makes the caller's stream wait for it.",
                "Record an event on that stream behind the last step and let the default stream wait for it, or "
                "synchronise, before the function returns.",
            )
        if misused := misuse(self.issued, self.names, self.first.non_blocking):
            raise LiftRefusedError(
                Status.RUNTIME_ERROR,
                f"In the host code {misused}.",
                "Take and give back memory on the stream that uses it, or let it wait for the one that does: "
                "cudaEventRecord(event, user) and cudaStreamWaitEvent(stream, event). cudaFree waits for no step on "
                "memory of cudaMallocAsync.",
            )
        return orders_left_open(self.order, self.touched, self.holds)

    def _launch(self, one: RecordedLaunch, other: RecordedLaunch) -> Launch:
        entry = self.by_symbol.get(one.kernel)
        if entry is None or len(one.arguments) != len(entry.parameters):
            raise LiftRefusedError(
                Status.RUNTIME_ERROR,
                "The host code launches a function that is no kernel of the program.",
                "Launch a `__global__` function of this file, with its own arguments.",
            )
        name = shortest(entry, self.entries)
        library = _library_of(entry.name)
        if library is not None:
            raise LiftRefusedError(
                Status.UNSUPPORTED,
                f"The host code launches a kernel of the library {library}, which is not the submission's own.",
                "Write the kernel in this file. It was not judged, so there is no reward.",
            )
        if one.model_copy(update={"arguments": ()}) != other.model_copy(update={"arguments": ()}):
            raise unstable(f"it launches {name} in another way (grid, block or shared memory)")
        if len(other.arguments) != len(one.arguments):
            raise unstable(f"it launches {name} with other arguments")
        arguments = [
            self._argument(f"argument {number} of {name}, `{parameter.type} {parameter.name}`,", parameter, *pair)
            for number, (parameter, *pair) in enumerate(
                zip(entry.parameters, one.arguments, other.arguments, strict=True), 1
            )
        ]
        return Launch(
            kernel=name,
            grid=one.grid,
            block=one.block,
            cluster=one.cluster,
            shared_bytes=one.shared_bytes,
            cooperative=one.cooperative,
            args=tuple(arguments),
        )

    def _fill(self, one: RecordedFill, other: RecordedFill) -> Iterator[Fill | Copy]:
        number, offset = self.addresses.place("a fill", one.fill, other.fill)
        parts = parts_of(one, other)
        if parts is None:
            held = bytes.fromhex(one.data)
            words = (int.from_bytes(held[at : at + 8], "little") for at in range(0, len(held) - 7, 8))
            if any(self.addresses.number_at(word) is not None for word in words):
                raise LiftRefusedError(
                    Status.UNSUPPORTED,
                    "The host code copies addresses of device memory to the device, which a plan cannot say.",
                    "Pass pointers as arguments, in a struct where they are many. It was not judged, so there is no "
                    "reward.",
                )
            raise unstable("it copies other data to the device")
        target, variable = self._target(number, "a fill")
        for start, end, data in parts:
            there, many = offset + start, end - start
            if data is not None:
                yield Fill(target=target, data=data, offset_bytes=there, size_bytes=many, variable=variable)
                continue
            self.undefined_bytes = max(self.undefined_bytes, many)
            source = self.undefined
            yield Copy(source=source, target=target, target_offset_bytes=there, size_bytes=many, variable=variable)

    def _copy(self, one: RecordedCopy, other: RecordedCopy) -> Copy:
        if one.bytes != other.bytes:
            raise unstable("it copies another number of bytes")
        to, to_offset = self.addresses.place("the target of a copy", one.to, other.to)
        source, offset = self.addresses.place("the source of a copy", one.source, other.source)
        target, variable = self._target(to, "a copy")
        return Copy(
            source=self._named(source, "the source of a copy"),
            target=target,
            source_offset_bytes=offset,
            target_offset_bytes=to_offset,
            size_bytes=one.bytes,
            variable=variable,
        )

    def _target(self, number: int, place: str) -> tuple[str, bool]:
        variable = self.first.buffers[number].variable
        return (variable, True) if variable is not None else (self._named(number, place), False)

    def _called(self, number: int) -> str:
        """The buffer in words, also one that no step may use."""
        name = self.names[number] or self.first.buffers[number].variable
        return f"'{name}'" if name else "memory that it allocates"

    def _named(self, number: int, place: str) -> str:
        """The buffer's name in the plan: a temporary gets one when it is first used."""
        if number in self.freed:
            raise LiftRefusedError(
                Status.RUNTIME_ERROR,
                f"In the host code {place.removesuffix(',')} is memory that was freed before.",
                "Free temporaries after the last launch that uses them.",
            )
        if self.first.buffers[number].variable is not None:
            raise LiftRefusedError(
                Status.UNSUPPORTED,
                f"The host code passes the address of the variable {self.first.buffers[number].variable} ({place}), "
                "which a plan cannot say.",
                "Use the variable by its name in the kernel. It was not judged, so there is no reward.",
            )
        name = self.names[number]
        if name is None:
            taken = {*self.problem.parameter_names, *filter(None, self.names)}
            name = next(one for i in itertools.count(1) if (one := f"scratch{i}") not in taken)
            self.names[number] = name
        return name

    def _learn(self, number: int, offset: int, parameter: Parameter) -> None:
        """The element type of a temporary, from the first kernel that takes it, so that messages count elements."""
        dtype = _DTYPES.get(parameter.pointee or "")
        if (
            number >= self._tensors
            and not offset
            and dtype
            and not self.first.buffers[number].bytes % dtype.size_bytes
        ):
            self.dtypes.setdefault(number, dtype)


def _reason(error: Exception, steps: int) -> str:
    if isinstance(error, PlanError):
        return error.reason
    if steps > MAX_RECORDED_STEPS:
        return f"it has {steps} steps, and {MAX_RECORDED_STEPS} are allowed"
    return "a name or a list in it is too long"
