"""What host code returns: which of its buffers are the problem's outputs, and what has to be copied into them."""

from collections.abc import Callable, Mapping
from math import prod
from typing import Final

from common.contract import Status
from common.wire import DType
from evaluator.problems.problem import Problem
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.recording import CallRecording, RecordedTensor

_TYPES: Final = {
    "Byte": DType.UINT8,
    "Bool": DType.UINT8,
    "Char": DType.INT8,
    "Short": DType.INT16,
    "Int": DType.INT32,
    "Long": DType.INT64,
    "Half": DType.FLOAT16,
    "Float": DType.FLOAT32,
    "Double": DType.FLOAT64,
    "BFloat16": DType.BFLOAT16,
    "UInt16": DType.UINT16,
    "UInt32": DType.UINT32,
    "UInt64": DType.UINT64,
    **{one.value: one for one in DType},
    "bool": DType.UINT8,
}
"""By their names in c10::ScalarType, and in Python."""

Shape = tuple[int, ...]
Place = Callable[[str, int, int], tuple[int, int]]
"""Buffer and offset that two addresses, one of each recording, both mean. Raises LiftRefusedError."""


class Returned:
    """The returned tensors of both recordings as outputs. Raises LiftRefusedError where they are none."""

    def __init__(
        self,
        problem: Problem,
        shapes: Mapping[str, Shape] | None,
        first: CallRecording,
        second: CallRecording,
        place: Place,
    ) -> None:
        """`shapes`: of the outputs, where they have to be returned."""
        self.problem, self.first = problem, first
        self.whole: dict[int, str] = {}
        """Allocations that are an output themselves, by their number."""
        self.copied: list[tuple[str, int, int, int]] = []
        """Outputs that are a part of a buffer, or another tensor: output, buffer, offset, bytes."""
        if len(first.returned) != len(second.returned):
            raise unstable("it returns another number of tensors")
        if not first.returned and shapes is not None:
            raise _misfit("returns no tensor")
        if not first.returned:
            return
        if len(first.returned) != len(problem.outputs):
            names = ", ".join(tensor.name for tensor in problem.outputs)
            raise _misfit(f"returns {len(first.returned)} tensors, and {problem.id} has {names}")
        tensors = [tensor.name for tensor in (*problem.inputs, *problem.outputs)]
        for output, one, other in zip(problem.outputs, first.returned, second.returned, strict=True):
            if one.model_copy(update={"address": 0}) != other.model_copy(update={"address": 0}):
                raise unstable(f"it returns another tensor for '{output.name}'")
            self._check(output.name, output.dtype, one)
            if shapes is not None and not _alike(one.shape, shapes[output.name]):
                wanted = _said(shapes[output.name])
                raise _misfit(f"returns a tensor of shape {_said(one.shape)}, and '{output.name}' has {wanted}")
            number, offset = place(f"what is returned as '{output.name}'", one.address, other.address)
            size = prod(one.shape) * output.dtype.size_bytes
            held = first.buffers[number]
            if size > held.bytes - offset:
                raise unstable(f"what is returned as '{output.name}' goes beyond the end of its buffer")
            if number < len(tensors) and tensors[number] == output.name and not offset:
                continue
            is_new = (
                shapes is not None and number >= len(tensors) and held.variable is None and number not in self.whole
            )
            if is_new and not offset and size == held.bytes:
                self.whole[number] = output.name
            else:
                self.copied.append((output.name, number, offset, size))

    def _check(self, name: str, dtype: DType, one: RecordedTensor) -> None:
        if not one.on_device:
            raise LiftRefusedError(
                Status.RUNTIME_ERROR,
                f"What the host code returns as '{name}' is on the host.",
                "Make tensors with the options of an input: `torch::empty({n}, x.options())`.",
            )
        found = _TYPES.get(one.type)
        if found is not dtype:
            raise _misfit(f"returns a tensor of type {one.type}, and '{name}' is {dtype}")
        if not one.contiguous:
            raise LiftRefusedError(
                Status.UNSUPPORTED,
                f"What the host code returns as '{name}' is a view that is not contiguous, which a plan cannot copy.",
                "Write the output in its own order. It was not judged, so there is no reward.",
            )


def _alike(returned: Shape, wanted: Shape) -> bool:
    """Whether they are the same; of one element a shape may be any."""
    return returned == wanted or (prod(returned) == 1 and prod(wanted) == 1)


def _said(shape: Shape) -> str:
    return f"({', '.join(map(str, shape))})"


def _misfit(what: str) -> LiftRefusedError:
    return LiftRefusedError(
        Status.INVALID_SUBMISSION, f"The host code {what}.", "Return the outputs in the problem's order and types."
    )


def unstable(what: str) -> LiftRefusedError:
    """Host code that does another thing in its second run."""
    return LiftRefusedError(
        Status.REJECTED,
        f"The host code does not launch the same each time: called twice in the same way, with its buffers at other "
        f"addresses, {what}.",
        "Let launches depend on nothing but the sizes: no random numbers, no clock, no addresses.",
    )
