"""How PyTorch stores a tensor: densely in the order of its dimensions, or with the channels last."""

import itertools
from collections.abc import Sequence
from typing import Any, Final

CONTIGUOUS: Final = "contiguous"
CHANNELS_LAST: Final = {"channels_last": (0, 2, 3, 1), "channels_last_3d": (0, 2, 3, 4, 1)}
"""The order in which the dimensions lie in memory, the slowest first."""


def dense_strides(shape: Sequence[int]) -> list[int]:
    """In elements, of what is stored as its shape says; as PyTorch has them, of empty ones too."""
    return [*itertools.accumulate((max(one, 1) for one in shape[:0:-1]), lambda a, b: a * b, initial=1)][::-1][
        : len(shape)
    ]


def is_stored_so(shape: Sequence[int], strides: Sequence[int], memory_format: Any = None) -> bool:
    """What `Tensor.is_contiguous` says, of a `torch.memory_format` as the stand-ins have it or None."""
    order = CHANNELS_LAST.get(memory_format, tuple(range(len(shape))))
    if len(order) != len(shape):
        return False
    dense = dense_strides([shape[one] for one in order])
    pairs = zip(order, dense, strict=True)
    return 0 in shape or all(shape[one] == 1 or strides[one] == wanted for one, wanted in pairs)
