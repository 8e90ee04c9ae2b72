"""Functions of `torch` that make tensors of sizes."""

from collections.abc import Sequence
from typing import Any

from evaluator.stages.lift.kernelbench.inside.layout import CONTIGUOUS, PRESERVE, packed_strides, strides_like
from evaluator.stages.lift.kernelbench.inside.script import DTYPES, ElementType
from evaluator.stages.lift.kernelbench.inside.tensors import PassedTensor, RandomTensor, sizes_given


def allocated(fill: float | None) -> Any:
    """`torch.empty`, `zeros`, `ones`."""

    def make(
        *sizes: Any, dtype: ElementType | None = None, memory_format: Any = CONTIGUOUS, size: Any = None, **_: Any
    ) -> PassedTensor:
        shape = sizes_given(sizes if size is None else (size,))
        return _allocated(shape, dtype or DTYPES["float32"], fill, packed_strides(shape, memory_format))

    return make


def allocated_like(fill: float | None) -> Any:
    """`torch.empty_like` and such."""

    def make(
        like: PassedTensor, dtype: ElementType | None = None, memory_format: Any = PRESERVE, **_: Any
    ) -> PassedTensor:
        shape = like.shape
        kept = memory_format == PRESERVE
        strides = strides_like(shape, like.stride()) if kept else packed_strides(shape, memory_format)
        return _allocated(shape, dtype or like.dtype, fill, strides)

    return make


def _allocated(shape: Sequence[int], dtype: ElementType, fill: float | None, strides: Sequence[int]) -> PassedTensor:
    made = PassedTensor(shape, dtype, None, fill, strides)
    made._allocated = True
    return made


def full(size: Any, fill_value: float, dtype: ElementType | None = None, **named: Any) -> PassedTensor:
    """`torch.full`."""
    return allocated(fill_value)(size, dtype=dtype, **named)  # type: ignore[no-any-return]


def full_like(like: PassedTensor, fill_value: float, **named: Any) -> PassedTensor:
    """`torch.full_like`."""
    return allocated_like(fill_value)(like, **named)  # type: ignore[no-any-return]


def drawn_tensor(*sizes: Any, dtype: ElementType | None = None, **_: Any) -> PassedTensor:
    """`torch.randn` and such."""
    return RandomTensor(sizes_given(sizes), dtype or DTYPES["float32"], None)


def _new(fill: float | None) -> Any:
    """`Tensor.new_empty` and such."""

    def made(one: PassedTensor, *sizes: Any, dtype: ElementType | None = None, **named: Any) -> PassedTensor:
        return allocated(fill)(*sizes, dtype=dtype or one.dtype, **named)  # type: ignore[no-any-return]

    return made


def _new_full(
    one: PassedTensor, size: Any, fill_value: float, dtype: ElementType | None = None, **named: Any
) -> PassedTensor:
    return full(size, fill_value, dtype=dtype or one.dtype, **named)


_NEW = {"new_empty": _new(None), "new_zeros": _new(0.0), "new_ones": _new(1.0), "new_full": _new_full}
for _name, _method in _NEW.items():
    setattr(PassedTensor, _name, _method)
