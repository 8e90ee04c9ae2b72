"""What PyTorch does to a tensor between kernels and is no computation: another layout, another type.

Each is a launch of a kernel of ours, which the plan has as any other: it is compiled, carried out and timed. What it
makes is for kernels to read, and no output: that is for the submission to compute.
"""

import math
from collections.abc import Sequence
from typing import Final

import triton
import triton.language as tl

from evaluator.stages.lift.triton.inside.dtypes import DTYPES, dtype
from evaluator.stages.lift.triton.inside.memory import NotRecordedError
from evaluator.stages.lift.triton.inside.stand_in_tensor import StandInTensor

_MAX_DIMS: Final = 6
_TILE: Final = 1024
_WHOLE: Final = ("int8", "int16", "int32", "int64", "uint8", "bool")
_EXACT: Final = {
    "float32": ("float16", "bfloat16", "int32", "int64", "bool"),
    "float16": ("float32", "bool"),
    "bfloat16": ("float32", "bool"),
    **dict.fromkeys(_WHOLE, ("float32", *_WHOLE)),
}
"""Conversions that Triton rounds as PyTorch does: to the nearest, ties to even, and in one step."""


@triton.jit(do_not_specialize=["many", "e1", "e2", "e3", "e4", "e5", "s0", "s1", "s2", "s3", "s4", "s5"])  # type: ignore[untyped-decorator]
def _copy_elements(  # type: ignore[no-untyped-def]
    source, target, many, e1, e2, e3, e4, e5, s0, s1, s2, s3, s4, s5, truth: tl.constexpr, tile: tl.constexpr
):
    number = tl.program_id(0).to(tl.int64) * tile + tl.arange(0, tile)
    inside = number < many
    rest = number
    place = rest % e5 * s5
    rest = rest // e5
    place += rest % e4 * s4
    rest = rest // e4
    place += rest % e3 * s3
    rest = rest // e3
    place += rest % e2 * s2
    rest = rest // e2
    place += rest % e1 * s1 + rest // e1 * s0
    value = tl.load(source + place, mask=inside)
    if truth:
        value = value != 0
    tl.store(target + number, value.to(target.dtype.element_ty), mask=inside)


def copied(one: StandInTensor, kind: dtype) -> StandInTensor:
    """The same elements in a new contiguous tensor, as `Tensor.contiguous`, or one of another type, as `Tensor.to`.

    Raises NotRecordedError where PyTorch may round otherwise, or keeps another layout.
    """
    if kind is not one.dtype and (kind.name not in _EXACT.get(one.dtype.name, ()) or not one.is_contiguous()):
        raise NotRecordedError(f"a conversion from {one.dtype} to {kind}")
    pairs = [(extent, step) for extent, step in zip(one.shape, one.stride(), strict=True) if extent != 1]
    if len(pairs) > _MAX_DIMS:
        raise NotRecordedError(f"a copy of a tensor of more than {_MAX_DIMS} dimensions into another layout")
    made = one.new_empty(one.shape, dtype=kind)
    one._memory.made_by_us(made.data_ptr(), made.nbytes)
    many = math.prod(one.shape)
    if many:
        extents, steps = _filled_up([extent for extent, _ in pairs], 1), _filled_up([step for _, step in pairs], 0)
        truth = kind is DTYPES["bool"] and one.dtype is not kind
        _copy_elements[(triton.cdiv(many, _TILE),)](one, made, many, *extents[1:], *steps, truth=truth, tile=_TILE)
    return made


def _filled_up(some: Sequence[int], neutral: int) -> list[int]:
    return [neutral] * (_MAX_DIMS - len(some)) + list(some)
