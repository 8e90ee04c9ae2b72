"""Plain contents of inputs: simple enough for a person to follow, and to be made again by a few lines of C.

All but the scrambled keep sums of a million exact in float32, so that roundings say nothing about a kernel. The hash
is the finaliser of MurmurHash3 (A. Appleby, 2011, `fmix32`).
"""

import math
from typing import Any, Final, get_args

import numpy as np
from numpy.typing import NDArray

from common.contract.correctness import Content
from evaluator.problems.arrays import numpy_dtype
from evaluator.problems.problem import Sizes, Tensor

SIMPLEST_FIRST: Final[tuple[Content, ...]] = tuple(name for name in get_args(Content) if name != "drawn")
"""Contents that need no dice."""
IN_WORDS: Final[dict[Content, str]] = {
    "zeros": "zeros",
    "ones": "ones",
    "ramp": "a ramp of seven quarters, again and again,",
    "one": "a single 1 at its start, and zeros",
    "scrambled": "scrambled values from -1 to 1",
    "drawn": "drawn values",
}


def contents(tensor: Tensor, sizes: Sizes, content: Content) -> NDArray[Any]:
    """`tensor` at `sizes`, in its shape and dtype. Raises ValueError for `drawn`."""
    shape = tensor.shape_at(sizes)
    index = np.arange(math.prod(shape), dtype=np.uint32)
    values = _values(index, content, tensor.dtype.is_float)
    made: NDArray[Any] = values.astype(numpy_dtype(tensor.dtype)).reshape(shape)
    return made


def _values(index: NDArray[Any], content: Content, is_float: bool) -> Any:
    if content == "zeros":
        return np.zeros(index.shape)
    if content == "ones":
        return np.ones(index.shape)
    if content == "ramp":
        return np.multiply(index % 7 + 1, 0.25 if is_float else 1)
    if content == "one":
        return (index == 0) * 1.0
    if content != "scrambled":
        raise ValueError(f"{content} contents come from a distribution")
    mixed = index + np.uint32(1)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        mixed = (mixed ^ (mixed >> np.uint32(shift))) * np.uint32(factor)
    high: NDArray[Any] = mixed >> np.uint32(8 if is_float else 24)
    return high.astype(np.float64) * 2.0**-23 - 1.0 if is_float else high
