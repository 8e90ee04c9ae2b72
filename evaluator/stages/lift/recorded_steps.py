"""Two recordings of one call, at different made-up addresses, to the launch plan that both are.

A word that differs between the two is an address, of the same byte of the same buffer in both, or it is something
that no plan can say. A word that is the same in both is a number, whatever it looks like.
"""

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from common.contract import Status
from common.launch_plan import (
    MAX_RECORDED_STEPS,
    AddressInArgument,
    Copy,
    Fill,
    Launch,
    OtherOrder,
    PlanError,
    RawArgument,
    RecordedLaunchPlan,
    Step,
    Temporary,
)
from common.wire import DType
from evaluator.backends.session import Entry, Parameter
from evaluator.problems.problem import Problem
from evaluator.stages.compile.kernel_names import shortest
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.pinned_memory import parts_of
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
from evaluator.stages.lift.returned import Returned, unstable
from evaluator.stages.lift.stream_order import (
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


_UNDEFINED: Final = 0x7F
"""The byte that stands for one that nobody wrote: of such, a float is 3e38, an integer large, an address nowhere."""


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
        self.bases = [sorted((one.base, i) for i, one in enumerate(each.buffers)) for each in (first, second)]
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
        returned = Returned(self.problem, shapes, self.first, self.second, self._place)
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
        library = _LIBRARIES.get(entry.name.removeprefix("void ").split("::")[0].strip())
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

    def _argument(self, place: str, parameter: Parameter, one: str, other: str) -> int | str | RawArgument:
        if len(one) != 2 * parameter.size_bytes or len(other) != len(one):
            raise unstable(f"{place} has another size")
        data, twin = (
            bytes.fromhex(_without_padding(one, parameter)),
            bytearray.fromhex(_without_padding(other, parameter)),
        )
        found: list[AddressInArgument] = []
        plain = bytearray(data)
        for at in range(0, len(data) - 7, 8):
            words = data[at : at + 8], bytes(twin[at : at + 8])
            if words[0] == words[1] or (parameter.kind == "struct" and self._is_undefined(*words)):
                continue
            number, offset = self._place(place, *(int.from_bytes(word, "little") for word in words))
            name = self._named(number, place)
            if parameter.kind == "pointer":
                self._learn(number, offset, parameter)
            found.append(AddressInArgument(at=at, buffer=name, offset_bytes=offset))
            plain[at : at + 8] = twin[at : at + 8] = bytes(8)
        if parameter.kind == "struct":
            for at, pair in enumerate(zip(plain, twin, strict=True)):
                if pair[0] != pair[1]:
                    plain[at] = twin[at] = _UNDEFINED
        if plain != twin:
            raise unstable(f"{place} is {_few(data)} in one run and {_few(bytes.fromhex(other))} in the next")
        if not found and parameter.kind in ("int", "uint"):
            return int.from_bytes(data, "little", signed=parameter.kind == "int")
        if not found and parameter.kind == "pointer" and not any(data):
            return 0
        if parameter.kind == "pointer" and found and not found[0].offset_bytes:
            return found[0].buffer
        return RawArgument(data=bytes(plain).hex(), addresses=tuple(found))

    def _is_undefined(self, one: bytes, other: bytes) -> bool:
        """Whether words that differ are an address in neither recording.

        In a struct, what host code never wrote: the end of a list that is not full, what a union has beside the
        member that was set. There is in them what was on the stack.
        """
        both = self._both(int.from_bytes(one, "little"), int.from_bytes(other, "little"))
        return all(self._looked_up(*each) is None for each in both)

    def _fill(self, one: RecordedFill, other: RecordedFill) -> Iterator[Fill | Copy]:
        number, offset = self._place("a fill", one.fill, other.fill)
        parts = parts_of(one, other)
        if parts is None:
            held = bytes.fromhex(one.data)
            places = (self._looks_up(held, at) for at in range(0, len(held) - 7, 8))
            if any(places):
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
        to, to_offset = self._place("the target of a copy", one.to, other.to)
        source, offset = self._place("the source of a copy", one.source, other.source)
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

    def _place(self, place: str, one: int, other: int) -> tuple[int, int]:
        """Buffer and offset that both addresses mean."""
        found = [self._looked_up(bases, each, word) for bases, each, word in self._both(one, other)]
        if found[0] is None or found[0] != found[1]:
            raise unstable(f"{place} is {one:#x} in one run and {other:#x} in the next, at no buffer's address")
        if found[0][0] in self.first.of_others:
            raise LiftRefusedError(
                Status.REJECTED,
                f"The host code keeps pointers of an earlier call: {place.removesuffix(',')} is a tensor that this "
                "call was not given.",
                "Take all pointers from the arguments anew at each call: each has tensors of its own.",
            )
        return found[0]

    def addresses(self, one: RecordedLaunch, other: RecordedLaunch) -> Iterator[tuple[int, int, int]]:
        """Those in the arguments of a launch: the parameter's number from 0 on, byte, and buffer."""
        for parameter, (data, twin) in enumerate(zip(one.arguments, other.arguments, strict=False)):
            for at in range(0, min(len(data), len(twin)) // 2 - 7, 8):
                words = [bytes.fromhex(each[2 * at : 2 * at + 16]) for each in (data, twin)]
                if words[0] != words[1] and (found := self.number_at(int.from_bytes(words[0], "little"))) is not None:
                    yield parameter, at, found

    def number_at(self, address: int) -> int | None:
        """The buffer at an address of the first recording."""
        found = self._looked_up(self.bases[0], self.first, address)
        return None if found is None else found[0]

    def _both(self, one: int, other: int) -> Iterator[tuple[list[tuple[int, int]], CallRecording, int]]:
        yield self.bases[0], self.first, one
        yield self.bases[1], self.second, other

    @staticmethod
    def _looked_up(bases: list[tuple[int, int]], recording: CallRecording, word: int) -> tuple[int, int] | None:
        at = bisect_right(bases, (word, len(bases)))
        if not at:
            return None
        base, number = bases[at - 1]
        return (number, word - base) if word - base <= recording.buffers[number].bytes else None

    def _looks_up(self, data: bytes, at: int) -> bool:
        word = int.from_bytes(data[at : at + 8], "little")
        return self._looked_up(self.bases[0], self.first, word) is not None

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


def renamed(steps: Sequence[Step], names: Mapping[str, str]) -> list[Step]:
    """The same steps on other buffers, by the names of those that they are on."""

    def argument(one: int | float | str | RawArgument) -> int | float | str | RawArgument:
        if isinstance(one, RawArgument):
            addresses = (to.model_copy(update={"buffer": names.get(to.buffer, to.buffer)}) for to in one.addresses)
            return one.model_copy(update={"addresses": tuple(addresses)})
        return names.get(one, one) if isinstance(one, str) else one

    found: list[Step] = []
    for step in steps:
        if isinstance(step, Launch):
            found.append(step.model_copy(update={"args": tuple(argument(one) for one in step.args)}))
            continue
        changed = {} if step.variable else {"target": names.get(step.target, step.target)}
        if isinstance(step, Copy):
            changed["source"] = names.get(step.source, step.source)
        found.append(step.model_copy(update=changed))
    return found


def _without_padding(data: str, parameter: Parameter) -> str:
    """The bytes of an argument, in hexadecimal, with 0 where the host leaves what was there before."""
    for start, end in parameter.padding:
        data = f"{data[: 2 * start]}{'00' * (end - start)}{data[2 * end :]}"
    return data


def _few(data: bytes) -> str:
    return data.hex() if len(data) <= 16 else f"{data[:16].hex()}…"


def _reason(error: Exception, steps: int) -> str:
    if isinstance(error, PlanError):
        return error.reason
    if steps > MAX_RECORDED_STEPS:
        return f"it has {steps} steps, and {MAX_RECORDED_STEPS} are allowed"
    return "a name or a list in it is too long"
