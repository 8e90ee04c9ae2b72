"""What the recorder wrote, read as what it is: a text of somebody whom nobody trusts.

Everything here is checked anew, since host code shares its process with the recorder and may write what it likes. The
worst that it can win by that is a launch plan of its own making, which is judged as any plan that is submitted.
"""

from typing import Annotated, Final, Literal

from pydantic import Field, StrictInt, ValidationError

from common.contract import Status
from common.wire import Wire
from evaluator.stages.lift.binding import LiftRefusedError

MAX_RECORDING_BYTES: Final = 8 << 20
_MAX_STEPS: Final = 8192
_MAX_BUFFERS: Final = 512
_Word = Annotated[StrictInt, Field(ge=0, lt=1 << 64)]
_Extents = tuple[_Word, _Word, _Word]
_Hex = Annotated[str, Field(pattern=r"^(?:[0-9a-f]{2})*$")]
_Name = Annotated[str, Field(max_length=4096, pattern=r"^[A-Za-z0-9_$.]*$")]


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


class RecordedCopy(Wire):
    """A copy on the device; addresses."""

    to: _Word
    source: _Word
    bytes: _Word
    stream: _Word


class RecordedFree(Wire):
    """A buffer that is given back, by its number."""

    free: _Word


class RecordedBuffer(Wire):
    """A tensor, an allocation, or a variable of the program, at its made-up address."""

    base: _Word
    bytes: _Word
    variable: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None


class RecordedTensor(Wire):
    """A tensor that the host code returned."""

    address: _Word
    type: Annotated[str, Field(max_length=32, pattern=r"^[A-Za-z0-9_]*$")]
    """Its name in c10::ScalarType."""
    shape: Annotated[tuple[_Word, ...], Field(max_length=32)]
    contiguous: bool
    on_device: bool


class Recording(Wire):
    """All that one call did."""

    buffers: Annotated[tuple[RecordedBuffer, ...], Field(max_length=_MAX_BUFFERS)]
    steps: Annotated[
        tuple[RecordedLaunch | RecordedFill | RecordedCopy | RecordedFree, ...], Field(max_length=_MAX_STEPS)
    ]
    streams: _Word
    returned: Annotated[tuple[RecordedTensor, ...], Field(max_length=64)] = ()


Reason = Literal[
    "host_access",
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
                "Its own check refuses these sizes, types or arguments; it has to serve all sizes of the problem.",
            )
        case "upload":
            return LiftRefusedError(
                Status.UNSUPPORTED,
                f"The host code copies {number} bytes of its own to the device: a plan may bring 65536.",
                f"Compute tables in a kernel. {unsupported}",
            )
        case "too_many_steps" | "too_many_buffers":
            what = "launches, fills and copies" if refusal.why == "too_many_steps" else "allocations"
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
                f"The launch of {kernel} asks for {number} bytes of dynamic shared memory, more than the kernel is "
                "allowed: a GPU does not launch it.",
                "Above 48 KiB call cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) "
                "first.",
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
        "no_stream": "a launch names a stream that nobody has made",
    }[refusal.why]
    return LiftRefusedError(
        Status.RUNTIME_ERROR, f"In the host code {said}.", "Check each runtime call's result, and its arguments."
    )


_DIRECTIONS: Final = {
    0: "cudaMemcpyHostToHost",
    1: "cudaMemcpyHostToDevice",
    2: "cudaMemcpyDeviceToHost",
    3: "cudaMemcpyDeviceToDevice",
}
