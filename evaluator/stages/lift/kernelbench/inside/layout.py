"""Where the elements of a tensor lie: its strides, and the memory formats of PyTorch."""

from collections.abc import Sequence
from typing import Any, Final

CONTIGUOUS: Final = "contiguous"
PRESERVE: Final = "preserve"
CHANNELS_LAST: Final = "channels_last"
CHANNELS_LAST_3D: Final = "channels_last_3d"
"""`torch.contiguous_format` and such."""

_INNERMOST_FIRST: Final = {CHANNELS_LAST: (1, 3, 2, 0), CHANNELS_LAST_3D: (1, 4, 3, 2, 0)}


def packed_strides(shape: Sequence[int], memory_format: Any = CONTIGUOUS) -> tuple[int, ...]:
    """Those of a tensor that is contiguous in this format. Raises RuntimeError where the format has another rank."""
    order = _INNERMOST_FIRST.get(memory_format, tuple(reversed(range(len(shape)))))
    if len(order) != len(shape):
        raise RuntimeError(f"required rank {len(order)} tensor to use {memory_format} format")
    return _packed_in(order, shape)


def lies_as(shape: Sequence[int], strides: Sequence[int], memory_format: Any = CONTIGUOUS) -> bool:
    """`Tensor.is_contiguous`."""
    if len(_INNERMOST_FIRST.get(memory_format, shape)) != len(shape):
        return False
    return _same_places(shape, strides, packed_strides(shape, memory_format))


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the elements fill a stretch of memory, in whichever order, and each has a place of its own."""
    return _same_places(shape, strides, strides_like(shape, strides))


def strides_like(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Of a dense tensor whose dimensions lie in the order of another's, as PyTorch's `infer_dense_strides` sorts."""
    order = list(reversed(range(len(shape))))
    for start in range(1, len(order)):
        at = start
        for other in reversed(range(start)):
            one, two = order[other], order[at]
            if 0 in (strides[one], strides[two]):
                continue  # a dimension that is expanded lies nowhere
            if (strides[one], shape[one]) > (strides[two], shape[two]):
                order[other], order[at] = two, one
                at = other
            elif strides[one] < strides[two]:
                break
    return _packed_in(order, shape)


def permuted_to(memory_format: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The order of dimensions in which a tensor of this format is contiguous, and the one that leads back."""
    outermost_first = tuple(reversed(_INNERMOST_FIRST[memory_format]))
    return outermost_first, tuple(outermost_first.index(dim) for dim in range(len(outermost_first)))


def _packed_in(innermost_first: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [1] * len(shape), 1
    for dim in innermost_first:
        strides[dim] = step
        step *= max(1, shape[dim])
    return tuple(strides)


def _same_places(shape: Sequence[int], one: Sequence[int], other: Sequence[int]) -> bool:
    return 0 in shape or all(extent == 1 or a == b for extent, a, b in zip(shape, one, other, strict=True))
