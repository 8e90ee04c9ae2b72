"""What the recorder wrote, read as what it is: a text of somebody whom nobody trusts.

Everything here is checked anew, since host code shares its process with the recorder and may write what it likes. The
worst that it can win by that is a launch plan of its own making, which is judged as any plan that is submitted.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, StrictInt, ValidationError

from common.contract import Status
from common.wire import Wire
from evaluator.stages.lift.binding import LiftRefusedError

MAX_RECORDING_BYTES: Final = 32 << 20
_MAX_STEPS: Final = 5 * 5 * 4096
"""Of four calls and what comes before them, with four times as many that order the others as there may be."""
_MAX_BUFFERS: Final = 2048
ORDINALS: Final = ("first", "second", "third", "fourth")
TENSORS_OF_CALLS: Final = (0, 1, 0, 0)
"""Which of two sets of tensors each call of one process gets. The second call shows what hangs on the tensors, the
last two what is left once everything is known."""
_SEED_BITS: Final = 63
"""A seed is read as a signed number of 64 bits, and is not negative."""
_Word = Annotated[StrictInt, Field(ge=0, lt=1 << 64)]
_Extents = tuple[_Word, _Word, _Word]
_Hex = Annotated[str, Field(pattern=r"^(?:[0-9a-f]{2})*$")]
_Name = Annotated[str, Field(max_length=4096, pattern=r"^[A-Za-z0-9_$.]*$")]


def seeds_of_both() -> tuple[int, int]:
    """What the made-up addresses of the two recordings of one call follow.

    Every bit differs, and each buffer has one of them in its address: so none has the same address in both. Which of
    the two recordings it is in, host code cannot tell from it.
    """
    seed = secrets.randbits(_SEED_BITS)
    return seed, seed ^ ((1 << _SEED_BITS) - 1)


class RecordedLaunch(Wire):
    """A launch. Each argument is the bytes of its parameter."""

    kernel: _Name
    grid: _Extents
    block: _Extents
    shared_bytes: _Word
    cooperative: bool
    cluster: _Extents | None
    stream: _Word
    arguments: Annotated[tuple[_Hex, ...], Field(max_length=256)]


class RecordedFill(Wire):
    """A memset, whose data is one byte, or an upload, whose data is all that it writes."""

    fill: _Word
    """The address."""
    data: _Hex
    bytes: _Word
    stream: _Word
    undefined: Annotated[StrictInt, Field(ge=0, le=255)] | None = None
    """Of an upload from pinned memory: the byte that was there before anybody wrote."""


class RecordedCopy(Wire):
    """A copy on the device; addresses."""

    to: _Word
    source: _Word
    bytes: _Word
    stream: _Word


class RecordedOrder(Wire):
    """What orders steps of several streams, or lets the host wait for them."""

    order: Literal["record", "wait", "stream", "event", "device"]
    """An event is recorded on a stream; a stream waits for an event; the host waits for a stream, an event, all."""
    stream: _Word = 0
    event: _Word = 0


class RecordedAllocation(Wire):
    """A buffer that is taken from a pool, by its number, in the order of a stream."""

    allocate: _Word
    stream: _Word


class RecordedFree(Wire):
    """A buffer that is given back, by its number: in the order of a stream, or at once."""

    free: _Word
    stream: _Word | None = None


AnyRecorded: TypeAlias = (
    RecordedLaunch | RecordedFill | RecordedCopy | RecordedAllocation | RecordedFree | RecordedOrder
)
"""All that a call may do, in the order in which the host does it."""


class RecordedBuffer(Wire):
    """A tensor, an allocation, or a variable of the program, at its made-up address."""

    base: _Word
    bytes: _Word
    variable: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None


class RecordedTensor(Wire):
    """A tensor that the host code returned."""

    address: _Word
    type: Annotated[str, Field(max_length=32, pattern=r"^[A-Za-z0-9_]*$")]
    """Its name in c10::ScalarType, or in Python."""
    shape: Annotated[tuple[_Word, ...], Field(max_length=32)]
    contiguous: bool
    on_device: bool


class RecordedCall(Wire):
    """One of the calls of a process."""

    first_step: _Word
    returned: Annotated[tuple[RecordedTensor, ...], Field(max_length=64)] = ()


class Recording(Wire):
    """All that one process did: its initialisers, and then calls, each with all inputs and outputs of its set."""

    buffers: Annotated[tuple[RecordedBuffer, ...], Field(max_length=_MAX_BUFFERS)]
    steps: Annotated[
        tuple[AnyRecorded, ...],
        Field(max_length=_MAX_STEPS),
    ]
    streams: _Word
    """How many there are. 0 is the default stream."""
    non_blocking: Annotated[tuple[_Word, ...], Field(max_length=_MAX_STEPS)] = ()
    """Those that the default stream does not wait for, nor they for it."""
    calls: Annotated[tuple[RecordedCall, ...], Field(max_length=len(TENSORS_OF_CALLS))]

    def call(self, number: int, tensors: int = 0, sets: Sequence[int] = TENSORS_OF_CALLS) -> "CallRecording":
        """One call by itself, from 0 on. `tensors`: how many of the buffers each of the two sets of tensors has;
        `sets`: which each call has.
        """
        ends = [*(one.first_step for one in self.calls), len(self.steps)]
        first = tensors * sets[number]
        order = [*range(first, first + tensors), *range(first), *range(first + tensors, len(self.buffers))]
        places = {old: new for new, old in enumerate(order)}
        freed = (step.free for step in self.steps[: ends[number]] if isinstance(step, RecordedFree))
        return CallRecording(
            tuple(self.buffers[old] for old in order),
            tuple(_moved(step, places) for step in self.steps[ends[number] : ends[number + 1]]),
            self.calls[number].returned,
            frozenset(places[one] for one in freed if one in places),
            frozenset(range(tensors, 2 * tensors)),
            self.non_blocking,
        )


def _moved(step: AnyRecorded, places: Mapping[int, int]) -> AnyRecorded:
    """The same with the numbers that buffers have now."""
    if isinstance(step, RecordedFree):
        return step.model_copy(update={"free": places.get(step.free, step.free)})
    if isinstance(step, RecordedAllocation):
        return step.model_copy(update={"allocate": places.get(step.allocate, step.allocate)})
    return step


@dataclass(frozen=True)
class CallRecording:
    """All that one call did. Its own tensors are the first of the buffers."""

    buffers: Sequence[RecordedBuffer]
    steps: Sequence[AnyRecorded]
    returned: Sequence[RecordedTensor] = ()
    freed: frozenset[int] = frozenset()
    """Buffers that were given back before it."""
    of_others: frozenset[int] = frozenset()
    """Tensors of another set, which are none of its own."""
    non_blocking: Sequence[int] = ()


Reason = Literal[
    "host_access",
    "pinned_access",
    "host_reads",
    "host_address",
    "not_covered",
    "wrong_direction",
    "no_buffer",
    "freed",
    "out_of_bounds",
    "shared_memory",
    "no_kernel",
    "no_variable",
    "no_stream",
    "no_event",
    "reset",
    "too_many_orders",
    "too_many_rows",
    "too_many_steps",
    "too_many_buffers",
    "too_large_buffer",
    "upload",
    "operator",
    "threw",
]


class Refusal(Wire):
    """Why the recorder stopped: a word, and what it is about."""

    why: Reason
    name: _Name
    number: StrictInt
    text: Annotated[str, Field(max_length=400)] = ""
    call: Annotated[StrictInt, Field(ge=0, le=len(TENSORS_OF_CALLS))] = 0
    """In which call, from 1 on; 0 before the first."""


class _Refused(Wire):
    refusal: Refusal


def recording_of(text: bytes) -> Recording | Refusal:
    """Raises LiftRefusedError for anything that the recorder does not write."""
    if len(text) <= MAX_RECORDING_BYTES:
        kind: type[Recording] | type[_Refused] = _Refused if text.startswith(b'{"refusal"') else Recording
        try:
            found = kind.model_validate_json(text)
        except (ValidationError, ValueError, RecursionError):
            pass
        else:
            return found.refusal if isinstance(found, _Refused) else found
    raise LiftRefusedError(
        Status.REJECTED,
        "What was recorded of the host code is not what the recorder writes: the host code has written it itself.",
        "Launch kernels through the CUDA runtime, and leave the files of the grader alone.",
    )


def ruling_of(refusal: Refusal, kernels: dict[str, str]) -> LiftRefusedError:
    """What a refusal means for a submission; `kernels` are names by symbol."""
    return in_call(_ruling_of(refusal, kernels), refusal.call - 1)


def in_call(refused: LiftRefusedError, number: int) -> LiftRefusedError:
    """The same with the call, from 0 on, in which it was; the first goes without saying."""
    if number < 1:
        return refused
    ruling = refused.ruling
    message = f"{ruling.message.removesuffix('.')} (in its {ORDINALS[number]} call in one process)."
    return LiftRefusedError(ruling.status, message, ruling.hint)


def _hint_on_exception(said: str) -> str:
    """What to do about an exception: our recorder's own, of a call that does not fit, or a check of the text's."""
    if "module has no attribute" in said:
        return "Bind it: name it in `functions` of `load_inline`, or in the PYBIND11_MODULE with `m.def`."
    if "incompatible function arguments" in said:
        return "Call it with as many arguments as it takes, and of those types."
    return "Its own check refuses these sizes, types or arguments; it has to serve all sizes of the problem."


def _ruling_of(refusal: Refusal, kernels: dict[str, str]) -> LiftRefusedError:
    name, number = refusal.name or "a runtime function", refusal.number
    kernel = kernels.get(refusal.name, refusal.name or "a function")
    unsupported = "It was not judged, so there is no reward."
    match refusal.why:
        case "host_access" | "host_reads":
            how = (
                "reads or writes device memory directly"
                if refusal.why == "host_access"
                else f"copies device memory to the host ({name})"
            )
            return LiftRefusedError(
                Status.UNSUPPORTED,
                f"The host code {how}. It is only recorded, so there is no data that it could look at.",
                f"Leave the data on the device: decide in kernels, and by sizes alone on the host. {unsupported}",
            )
        case "pinned_access":
            return LiftRefusedError(
                Status.UNSUPPORTED,
                "The host code reads or writes pinned memory that a kernel was given before. It is only recorded, so "
                "what the kernel leaves there cannot be known.",
                f"Give kernels memory of the device, and copy to it. {unsupported}",
            )
        case "not_covered":
            return LiftRefusedError(
                Status.UNSUPPORTED,
                f"The host code calls {name}{f' ({number})' if number else ''}, which cannot be recorded.",
                f"docs/lifting.md lists what can be. {unsupported}",
            )
        case "operator":
            return LiftRefusedError(
                Status.UNSUPPORTED,
                f"The host code calls PyTorch's operator {name}, which computes something of its own. Host code is "
                "only recorded here.",
                f"Compute it in a kernel of this file; docs/lifting.md lists what can be called. {unsupported}",
            )
        case "threw":
            return LiftRefusedError(
                Status.RUNTIME_ERROR,
                f"The host code threw an exception: {refusal.text.rstrip('.') or 'it says nothing'}.",
                _hint_on_exception(refusal.text),
            )
        case "upload":
            return LiftRefusedError(
                Status.UNSUPPORTED,
                f"The host code copies {number} bytes of its own to the device: a plan may bring 65536.",
                f"Compute tables in a kernel. {unsupported}",
            )
        case "too_many_rows":
            return LiftRefusedError(
                Status.UNSUPPORTED,
                f"The host code calls {name} for {number} rows, each of which is a step of a plan, and a plan has no "
                "more than 4096.",
                f"Leave no gaps between the rows, which makes one step of all, or use a kernel. {unsupported}",
            )
        case "too_many_steps" | "too_many_orders" | "too_many_buffers":
            what = _COUNTED[refusal.why]
            return LiftRefusedError(
                Status.INVALID_SUBMISSION,
                f"The host code makes more than {number} {what}.",
                "Do the loop in a kernel, or in fewer launches.",
            )
        case "too_large_buffer":
            return LiftRefusedError(
                Status.OUT_OF_MEMORY, f"The host code allocates {number} MiB at once.", "Use smaller temporaries."
            )
        case "shared_memory":
            return LiftRefusedError(
                Status.RUNTIME_ERROR,
                f"The launch of {kernel} asks for {number} bytes of static and dynamic shared memory together, more "
                "than the kernel is allowed: a GPU does not launch it.",
                "Above 48 KiB, both together, call cudaFuncSetAttribute(kernel, "
                "cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) first, with the dynamic bytes.",
            )
        case "reset":
            return LiftRefusedError(
                Status.RUNTIME_ERROR,
                "The host code calls cudaDeviceReset, which destroys all memory of the process, the tensors that it "
                "was given too.",
                "Leave the device as it is: the caller goes on using it.",
            )
        case "no_kernel":
            return LiftRefusedError(
                Status.RUNTIME_ERROR,
                f"The host code launches {kernel}, which is no kernel of the program.",
                "Launch a `__global__` function of this file.",
            )
    said = {
        "host_address": f"{name} is given an address of the host where one of the device belongs",
        "wrong_direction": f"{name} is given a direction ({_DIRECTIONS.get(number, str(number))}) that its addresses "
        "do not have: the pointers that the entry function gets are on the device",
        "no_buffer": f"{name} is given an address that no allocation has",
        "freed": f"{name} is given memory that was freed",
        "out_of_bounds": f"{name} goes beyond the end of its buffer",
        "no_variable": f"{name} is given something that is no `__device__` or `__constant__` variable",
        "no_stream": f"{name} is given a stream that was never created, or that was destroyed",
        "no_event": f"{name} is given an event that was never created, or that was destroyed",
    }[refusal.why]
    return LiftRefusedError(
        Status.RUNTIME_ERROR, f"In the host code {said}.", "Check each runtime call's result, and its arguments."
    )


_COUNTED: Final = {
    "too_many_steps": "launches, fills and copies",
    "too_many_orders": "records of events, and waits",
    "too_many_buffers": "allocations",
}
_DIRECTIONS: Final = {
    0: "cudaMemcpyHostToHost",
    1: "cudaMemcpyHostToDevice",
    2: "cudaMemcpyDeviceToHost",
    3: "cudaMemcpyDeviceToDevice",
}
