"""Tensors of a call that comes before the one that is judged: buffers of their own, with contents of ours."""

from collections.abc import Mapping, Sequence
from typing import Final

from common.launch_plan import Copy, Fill, Launch, RawArgument, Step, Temporary
from common.wire import DType
from evaluator.problems.problem import Tensor

_ELEMENTS: Final = {
    DType.FLOAT64: "000000000000e83f",
    DType.FLOAT32: "0000403f",
    DType.FLOAT16: "003a",
    DType.BFLOAT16: "403f",
}
"""The element of a stand-in, 0.75: a sum of such is not 0, as it would be of zeros. Integers are 0: they may be
indices."""
_MAX_NAME: Final = 64


class StandIns:
    """Buffers that stand for the tensors of a call."""

    def __init__(self, tensors: Sequence[Tensor], sizes_bytes: Sequence[int], taken: set[str]) -> None:
        """`sizes_bytes`: of each tensor. `taken`: names that no buffer may have."""
        taken = set(taken)
        self._names: dict[str, str] = {}
        for tensor in tensors:
            name = f"{tensor.name[: _MAX_NAME - 8]}_before"
            while name in taken:
                name = f"{name[:-1]}_"
            taken.add(name)
            self._names[tensor.name] = name
        self.fills = [
            Fill(target=self._names[tensor.name], data=_ELEMENTS.get(tensor.dtype, "00"), size_bytes=size_bytes)
            for tensor, size_bytes in zip(tensors, sizes_bytes, strict=True)
        ]
        """What gives them contents."""
        self.temporaries = [
            Temporary(name=fill.target, dtype=tensor.dtype, shape=(size_bytes // tensor.dtype.size_bytes,))
            for fill, tensor, size_bytes in zip(self.fills, tensors, sizes_bytes, strict=True)
        ]

    def in_place_of_tensors(self, steps: Sequence[Step]) -> list[Step]:
        """The same steps on them."""
        return _renamed(steps, self._names)


def _renamed(steps: Sequence[Step], names: Mapping[str, str]) -> list[Step]:
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
