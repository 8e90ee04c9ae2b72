"""Sums in order: what the plainest kernel computes, one accumulator for each sum, in float32.

Operators of PyTorch's that add up inside themselves are written out as such a kernel has them: a variance in two
passes, a norm, a softmax.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import torch

from evaluator.foreign.inside.arithmetic import FACTORS, NARROW, axes_of
from evaluator.foreign.inside.operators import SeenOperators, operator_name

_MOST_TERMS: Final = 1 << 25
"""Products that are made one by one for a sum in order: some tenths of a second."""


class OneAccumulator(SeenOperators):
    """Sums, norms, softmax and products of matrices in float32, one term after another, as the plainest kernel does.

    Those of 16 bits are added in float32 too, and rounded once. Where there are more terms than `_MOST_TERMS`, in
    PyTorch's own order.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = operator_name(func), kwargs or {}
        factors = FACTORS.get(name)
        if factors is not None and not (kwargs.keys() & {"alpha", "beta"}):
            left, right = (args[at] for at in factors)
            columns = 1 if right.ndim == 1 else right.shape[-1]
            if left.dtype in NARROW and left.numel() * columns <= _MOST_TERMS:
                product = _in_order(left.float(), right.float())
                return (product if factors[0] == 0 else product + args[0].float()).to(left.dtype)
        own = name in ("sum", "mean") and kwargs.get("dtype") in (None, args[0].dtype)
        if own and args[0].dtype in NARROW and args[0].numel() <= _MOST_TERMS:
            axes = axes_of(func, args) or tuple(range(args[0].ndim))
            if axes:
                kept = bool(args[2]) if len(args) > 2 else bool(kwargs.get("keepdim", False))
                return _summed(args[0].float(), axes, kept, name == "mean").to(args[0].dtype)
        written_out = _WRITTEN_OUT.get(name)
        if written_out and args[0].dtype in NARROW and args[0].numel() <= _MOST_TERMS:
            found = written_out(func, *args, **kwargs)
            if found is not None:
                return found
        return func(*args, **kwargs)


def _in_order(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    columns = right[..., None, :] if right.ndim == 1 else right.mT[..., None, :, :]
    terms = left.numpy()[..., None, :] * columns.numpy()
    found = torch.from_numpy(np.add.accumulate(terms, axis=-1)[..., -1].copy())
    return found[..., 0] if right.ndim == 1 else found


def _summed(values: torch.Tensor, axes: tuple[int, ...], kept: bool, mean: bool) -> torch.Tensor:
    others = [axis for axis in range(values.ndim) if axis not in axes]
    moved = values.permute(*others, *axes).reshape(*(values.shape[axis] for axis in others), -1).numpy()
    total = torch.from_numpy(np.add.accumulate(moved, axis=-1)[..., -1].copy())
    total = total / moved.shape[-1] if mean else total
    return (
        total.reshape([1 if axis in axes else extent for axis, extent in enumerate(values.shape)]) if kept else total
    )


def _spread(values: torch.Tensor, axes: tuple[int, ...], correction: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean and the variance over these axes, which stay with one element."""
    count = math.prod(values.shape[axis] for axis in axes)
    mean = _summed(values, axes, True, True)
    return mean, _summed((values - mean) ** 2, axes, True, False) / (count - correction)


def _reshaped(found: torch.Tensor, like: torch.Tensor, axes: tuple[int, ...], kept: bool) -> torch.Tensor:
    left = found if kept else found.reshape([extent for axis, extent in enumerate(found.shape) if axis not in axes])
    return left.to(like.dtype)


def _variance(func: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    name = operator_name(func)
    if func._overloadname != "correction" or not x.ndim:
        return None
    axes = axes_of(func, (x, *args)) or tuple(range(x.ndim))
    correction = kwargs.get("correction")
    mean, variance = _spread(x.float(), axes, 1.0 if correction is None else float(correction))
    kept = bool(kwargs.get("keepdim", False))
    spread = variance.sqrt() if name.startswith("std") else variance
    found = _reshaped(spread, x, axes, kept)
    return (found, _reshaped(mean, x, axes, kept)) if name.endswith("_mean") else found


def _vector_norm(func: Any, x: torch.Tensor, order: Any = 2, *args: Any, **kwargs: Any) -> Any:
    if order != 2 or kwargs.get("dtype") is not None or not x.ndim:
        return None
    given = args[0] if args else kwargs.get("dim")
    listed = [given] if isinstance(given, int) else list(given or range(x.ndim))
    axes = tuple(axis % x.ndim for axis in listed)
    kept = bool(args[1]) if len(args) > 1 else bool(kwargs.get("keepdim", False))
    return _reshaped(_summed(x.float() ** 2, axes, True, False).sqrt(), x, axes, kept)


def _softmax(func: Any, x: torch.Tensor, axis: int, half_to_float: bool) -> Any:
    if half_to_float or not x.ndim:
        return None
    shifted = x.float() - x.float().amax(axis, keepdim=True)
    total = _summed(shifted.exp(), (axis % x.ndim,), True, False)
    found = shifted - total.log() if "log" in operator_name(func) else shifted.exp() / total
    return found.to(x.dtype)


def _layer_norm(
    func: Any, x: torch.Tensor, shape: Any, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> Any:
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    mean, variance = _spread(x.float(), axes, 0.0)
    rate = torch.rsqrt(variance + eps)
    found = (x.float() - mean) * rate
    found = found if weight is None else found * weight
    found = found if bias is None else found + bias
    return found.to(x.dtype), mean, rate


def _group_norm(
    func: Any,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    batch: int,
    channels: int,
    area: int,
    groups: int,
    eps: float,
) -> Any:
    grouped = x.float().reshape(batch, groups, -1)
    mean, variance = _spread(grouped, (2,), 0.0)
    rate = torch.rsqrt(variance + eps)
    found = ((grouped - mean) * rate).reshape(batch, channels, area)
    found = found if weight is None else found * weight.reshape(1, channels, 1)
    found = found if bias is None else found + bias.reshape(1, channels, 1)
    return found.reshape(x.shape).to(x.dtype), mean.reshape(batch, groups), rate.reshape(batch, groups)


_WRITTEN_OUT: Final[Mapping[str, Callable[..., Any]]] = {
    "var": _variance,
    "var_mean": _variance,
    "std": _variance,
    "std_mean": _variance,
    "linalg_vector_norm": _vector_norm,
    "_softmax": _softmax,
    "_log_softmax": _softmax,
    "native_layer_norm": _layer_norm,
    "native_group_norm": _group_norm,
}
"""Operators that are written out; None from one: it is not, for these arguments."""
