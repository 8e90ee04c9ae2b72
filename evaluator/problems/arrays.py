"""Arrays of numpy and of torch alike, through the array API, and where their random contents come from.

Problems draw inputs and compute answers on whatever arrays they are given: numpy's in the grader, torch's where the
referee works on a device. Nothing here imports torch: an array says itself which namespace it belongs to.
Source: https://data-apis.org/array-api/2024.12
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from array_api_compat import array_namespace, device, is_numpy_array
from numpy.typing import NDArray

from common.wire import DType

Array: TypeAlias = Any
"""A numpy array or a torch tensor. The standard has no type for them yet."""

Shape: TypeAlias = tuple[int, ...]


class Rng(Protocol):
    """Random contents and plain ones, as arrays of one namespace on one device; each call draws afresh."""

    @property
    def xp(self) -> Any:
        """The namespace of the array API that its arrays belong to."""

    def normal(self, shape: Shape) -> Array:
        """Standard normal values, in float64 or, where that is much faster, float32."""

    def uniform(self, low: float, high: float, shape: Shape) -> Array:
        """Values spread evenly over [low, high), float64."""

    def integers(self, low: int, high: int, shape: Shape) -> Array:
        """Integers from `low` to `high`, both included, int64."""

    def signs(self, shape: Shape) -> Array:
        """+1 and -1, float64."""

    def full(self, shape: Shape, value: float) -> Array:
        """`value` everywhere, float64."""

    def arange(self, stop: int) -> Array:
        """0 to stop - 1, int64."""

    def nearby(self) -> "Rng":
        """Dice on the host, for what is so little that a device takes longer to be asked than it takes to draw."""

    def taken(self, *arrays: Array) -> tuple[Array, ...]:
        """Arrays of `nearby`, where the arrays of these dice are: all in one piece, if that is elsewhere."""

    def kept(self, make: Callable[[int], tuple[Array, ...]], length: int) -> tuple[Array, ...]:
        """What `make`, whose arrays are always the same, gives for a length, taken once. Nobody may write to it."""


def rng_seed(rng: Rng) -> int:
    """A seed below 2^63, for code that draws on its own and must give the same again from the same generator."""
    return int(to_numpy(rng.integers(0, (1 << 63) - 1, (1,)))[0])


@dataclass(frozen=True)
class NumpyRng:
    """Dice that draw numpy arrays."""

    generator: np.random.Generator

    @property
    def xp(self) -> Any:
        return np

    def normal(self, shape: Shape) -> Array:
        return self.generator.standard_normal(shape)

    def uniform(self, low: float, high: float, shape: Shape) -> Array:
        return self.generator.uniform(low, high, shape)

    def integers(self, low: int, high: int, shape: Shape) -> Array:
        return self.generator.integers(low, high, shape, endpoint=True)

    def signs(self, shape: Shape) -> Array:
        return self.generator.integers(0, 2, shape) * 2.0 - 1.0  # `choice` takes three times as long

    def full(self, shape: Shape, value: float) -> Array:
        return np.full(shape, value, np.float64)

    def arange(self, stop: int) -> Array:
        return np.arange(stop, dtype=np.int64)

    def nearby(self) -> Rng:
        return self

    def taken(self, *arrays: Array) -> tuple[Array, ...]:
        return arrays

    def kept(self, make: Callable[[int], tuple[Array, ...]], length: int) -> tuple[Array, ...]:
        return make(length)


def namespace(*arrays: Array) -> Any:
    """The namespace that `arrays` belong to. Raises TypeError where they are of several, or no arrays."""
    # numpy follows the standard by itself since 2.1; array_api_compat would load all of it, testing included.
    return np if all(map(is_numpy_array, arrays)) else array_namespace(*arrays)


def is_on_host(array: Array) -> bool:
    """Whether it is numpy's, so that asking for a value waits for nothing."""
    return bool(is_numpy_array(array))


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """An element type as numpy has it; bfloat16 as `ml_dtypes` adds it."""
    if dtype is not DType.BFLOAT16:
        return np.dtype(dtype.value)
    import ml_dtypes  # late: it takes as long to import as a small problem to judge, and few need it

    found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return found


def largest(dtype: DType) -> float:
    """The largest finite value of a floating-point type."""
    return _LARGEST_BFLOAT16 if dtype is DType.BFLOAT16 else float(np.finfo(dtype.value).max)


_LARGEST_BFLOAT16: Final = (2.0 - 2.0**-7) * 2.0**127


def dtype_in(xp: Any, dtype: DType) -> Any:
    """An element type in the words of a namespace."""
    return numpy_dtype(dtype) if xp is np else getattr(xp, dtype.value)


def as_elements(memory: Array, dtype: DType, shape: Sequence[int]) -> Array:
    """The same memory, contiguous, as elements of a type in a shape."""
    return memory.view(dtype_in(namespace(memory), dtype)).reshape(shape)


def cast(array: Array, dtype: DType, copy: bool = True) -> Array:
    """`array` in an element type, rounded to nearest even, and contiguous; without `copy` itself if it is so."""
    xp = namespace(array)
    if dtype is DType.BFLOAT16 and array.dtype == xp.float64:
        array = _rounded_to_odd(array)
    return contiguous(xp.astype(array, dtype_in(xp, dtype), copy=copy))


def _rounded_to_odd(values: Array) -> Array:
    """float64 as float32, cut off and with a last bit of 1 where anything was: another rounding is as if of all bits.

    numpy and torch go from float64 to bfloat16 through float32, which rounds twice. Source: S. Boldo and
    G. Melquiond, "When double rounding is odd", 2005.
    """
    xp = namespace(values)
    with np.errstate(over="ignore"):
        near = xp.astype(values, xp.float32)
    back = xp.astype(near, xp.float64)
    bits = near.view(xp.int32) - xp.astype(xp.abs(back) > xp.abs(values), xp.int32)
    return (bits | xp.astype(back != values, xp.int32)).view(xp.float32)


def widened(array: Array) -> Array:
    """Numpy's bfloat16, which its functions know little of, as the float32 of the same values; others as they are."""
    return array.astype(np.float32) if is_numpy_array(array) and array.dtype.name == "bfloat16" else array


def contiguous(array: Array) -> Array:
    """`array` itself if it is contiguous in row-major order, else a copy that is."""
    return np.ascontiguousarray(array) if is_numpy_array(array) else array.contiguous()


def doubles(arrays: Mapping[str, Array], *names: str) -> tuple[Any, ...]:
    """The namespace of `arrays`, then those of the given names in float64: what an oracle begins with."""
    xp = namespace(*(arrays[name] for name in names))
    return (xp, *(xp.astype(arrays[name], xp.float64) for name in names))


def to_numpy(array: Array) -> NDArray[Any]:
    """The same values in a numpy array on the host, of the same type."""
    if is_numpy_array(array):
        return np.asarray(array)
    xp = namespace(array)
    if array.dtype == getattr(xp, "bfloat16", None):
        return np.asarray(array.cpu().view(xp.int16)).view(numpy_dtype(DType.BFLOAT16))
    return np.asarray(array.cpu())


def element_bytes(array: Array) -> Array:
    """The memory of each element: uint8 of the array's shape with the bytes of an element as one axis more."""
    raw = contiguous(array).view(namespace(array).uint8)
    return raw.reshape((*array.shape, array.dtype.itemsize))


def memory_is_full(error: Exception) -> bool:
    """Whether an array could not be made for want of memory, here or on a device (`torch.OutOfMemoryError`)."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


def put(values: Array, where: Array, number: float) -> None:
    """Write `number` into `values` where `where` is true; `xp.where` would first make an array of the number."""
    if is_numpy_array(values):
        values[where] = number
    else:
        values.masked_fill_(where, number)


def with_border(array: Array, width: int) -> Array:
    """`array` with `width` zeros before and after it along its last two axes."""
    xp = namespace(array)
    *outer, rows, columns = array.shape
    padded = xp.zeros((*outer, rows + 2 * width, columns + 2 * width), dtype=array.dtype, device=device(array))
    padded[..., width : width + rows, width : width + columns] = array
    return padded


def on_device_of(array: Array, indices: NDArray[Any]) -> Array:
    """The same values in the namespace and on the device of `array`."""
    return indices if is_numpy_array(array) else namespace(array).asarray(indices, device=device(array))


def elements_of(array: Array, indices: NDArray[np.int64]) -> Array:
    """The elements at these flat row-major indices, 1-D."""
    return namespace(array).reshape(array, (-1,))[on_device_of(array, indices)]


def running_maximum(values: Array) -> Array:
    """The largest of the elements up to each one of a 1-D array. The array API has sums of this kind alone."""
    return np.maximum.accumulate(values) if is_numpy_array(values) else values.cummax(0).values


def counts(values: Array, bins: int) -> Array:
    """How many of the 1-D integers `values` equal 0, 1, … bins - 1: int64[bins]. Others are not counted."""
    xp = namespace(values)
    if is_numpy_array(values):  # numpy counts without sorting, in integers of 8 bytes: so in pieces
        found = np.zeros(bins, np.int64)
        for first in range(0, values.size, _COUNTED_AT_ONCE):
            piece = values[first : first + _COUNTED_AT_ONCE]
            found += np.bincount(piece[(piece >= 0) & (piece < bins)], minlength=bins)
        return found
    edges = xp.arange(bins + 1, dtype=xp.int64, device=device(values))
    below = xp.searchsorted(xp.sort(xp.astype(values, xp.int64)), edges)
    return below[1:] - below[:-1]


_COUNTED_AT_ONCE: Final = 1 << 20


def erfc(x: Array) -> Array:
    """1 - erf(x) without its cancellation, of float64 values. The array API has no error function."""
    if not is_numpy_array(x):
        return x.erfc()
    from scipy.special import erfc as of_numpy  # late: it takes longer to import than most problems to answer

    return of_numpy(x)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), where exp never overflows."""
    xp = namespace(x)
    return xp.exp(xp.clip(x, None, 0.0)) / (1.0 + xp.exp(-xp.abs(x)))


def normal_below(x: Array) -> Array:
    """The share of the standard normal distribution that lies below `x`."""
    return 0.5 * erfc(-_ROOT_HALF * x)


_ROOT_HALF: Final = math.sqrt(0.5)
