"""Tensors that are written down: each use of one is a line of the script that `recorder/extension.cpp` reads."""

import dis
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final, NoReturn

from evaluator.backends.model_binding import BY_NAME_ALONE
from evaluator.stages.lift.kernelbench.inside.memory_formats import (
    CHANNELS_LAST,
    CONTIGUOUS,
    dense_strides,
    is_stored_so,
)
from evaluator.stages.lift.kernelbench.inside.tables import ALIKE


class UnrecordableError(BaseException):
    """What a solution does and cannot be written down. It is no Exception, so that no solution takes it for one."""

    def __init__(self, why: str, what: str) -> None:
        super().__init__(what)
        self.why = why
        """`operator`, `reads`, `contents` or `other`."""
        self.what = what


RANDOM: Final = "a tensor whose contents are random, or none of the problem's"


def operator_called(name: str) -> NoReturn:
    """Refuse an operator, by its name."""
    raise UnrecordableError("operator", name)


class ElementType:
    """An element type."""

    def __init__(self, name: str, number: int, size: int, is_floating_point: bool) -> None:
        self.name, self.number, self.itemsize = name, number, size
        self.is_floating_point = is_floating_point

    def __repr__(self) -> str:
        return f"torch.{self.name}"


DTYPES: Final = {
    one.name: one
    for one in (
        ElementType("uint8", 0, 1, False),
        ElementType("int8", 1, 1, False),
        ElementType("int16", 2, 2, False),
        ElementType("int32", 3, 4, False),
        ElementType("int64", 4, 8, False),
        ElementType("float16", 5, 2, True),
        ElementType("float32", 6, 4, True),
        ElementType("float64", 7, 8, True),
        ElementType("bool", 11, 1, False),
        ElementType("bfloat16", 15, 2, True),
        ElementType("uint16", 27, 2, False),
        ElementType("uint32", 28, 4, False),
        ElementType("uint64", 29, 8, False),
    )
}


class Script:
    """The lines that were written so far."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, what: str, *numbers: int, text: str = "") -> int:
        """Write a line; the number of its value."""
        parts = (what, *([text] if text else []), len(numbers), *numbers)
        self.lines.append(" ".join(map(str, parts)))
        return len(self.lines) - 1


CURRENT: list[Script] = []
"""The script of the call that is under way, and none while a model is made."""


def script() -> Script:
    """Of the call that is under way."""
    if not CURRENT:
        raise UnrecordableError("other", "calls a function of its module before forward is called")
    return CURRENT[-1]


class Size(tuple[int, ...]):
    """The shape of a tensor."""

    def numel(self) -> int:
        return math.prod(self)


def refuse_another_layout(memory_format: Any) -> None:
    """Refuse to make a tensor with the channels last: everything here is stored as its shape says."""
    if memory_format in CHANNELS_LAST:
        operator_called(f"that stores with {memory_format}")


_UNKNOWN: Final = (-1,)
"""The strides of a view whose layout is not followed here: what asks for them is refused."""


class PassedTensor:
    """A tensor of the problem, one that was allocated, or what a function returned, whose shape nobody knows."""

    is_cuda = True
    requires_grad = False
    grad = None
    layout = "torch.strided"
    is_leaf = True
    _unbound = ""
    """Of a parameter that is no input of the problem: what to say of it."""

    def __init__(
        self, shape: Sequence[int] | None, dtype: ElementType | None, ref: int | None, fill: float | None = None
    ) -> None:
        self._shape, self._dtype, self._fill = None if shape is None else Size(shape), dtype, fill
        self._allocated = False
        self._strides: Sequence[int] | None = None
        """In elements, of a view that may have others than its shape says; None for every other tensor."""
        self._held: tuple[Script | None, int | None] = (CURRENT[-1] if CURRENT else None, ref)

    @property
    def _ref(self) -> int | None:
        """Of the script that is under way: another's value says nothing in it."""
        return self._held[1] if CURRENT and self._held[0] is CURRENT[-1] else None

    @_ref.setter
    def _ref(self, ref: int | None) -> None:
        self._held = (CURRENT[-1], ref)

    def _become(self, other: "PassedTensor") -> None:
        """Be another tensor in the script that is under way: a parameter is an input of the problem."""
        self._ref, self._dtype, self._strides = other._ref, other._dtype, None

    def ref(self) -> int:
        """The number of its value in the script."""
        held = self._ref
        if held is None:
            if not self._allocated:
                raise UnrecordableError("contents", self._unbound or RANDOM)
            assert self._shape is not None
            assert self._dtype is not None
            text = "" if self._fill is None else repr(float(self._fill))
            what = "empty" if self._fill is None else "fill"
            held = self._ref = script().add(what, self._dtype.number, *self._shape, text=text)
        return held

    @property
    def shape(self) -> Size:
        if self._shape is None:
            raise UnrecordableError("other", "asks for the shape of what a function of its module returned")
        return self._shape

    @property
    def dtype(self) -> ElementType:
        if self._dtype is None:
            raise UnrecordableError("other", "asks for the type of what a function of its module returned")
        return self._dtype

    @property
    def device(self) -> "NamedDevice":
        return NamedDevice("cuda:0")

    @property
    def data(self) -> "PassedTensor":
        return self

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def T(self) -> "PassedTensor":  # noqa: N802
        return self.t()

    def dim(self) -> int:
        return len(self.shape)

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        return self.shape.numel()

    def element_size(self) -> int:
        return self.dtype.itemsize

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def is_contiguous(self, memory_format: Any = CONTIGUOUS) -> bool:
        if self._shape is None:
            return memory_format not in CHANNELS_LAST
        return is_stored_so(self._shape, self.stride(), memory_format)

    def _known(self) -> None:
        if self._strides is _UNKNOWN:
            raise UnrecordableError("other", "asks how a view of a view that is not contiguous is stored")

    def stride(self, dim: int | None = None) -> Any:
        self._known()
        strides = tuple(dense_strides(self.shape) if self._strides is None else self._strides)
        return strides if dim is None else strides[dim]

    def get_device(self) -> int:
        return 0

    def __len__(self) -> int:
        return self.shape[0]

    def _viewed(self, what: str, *numbers: int, shape: Sequence[int] | None = None) -> "PassedTensor":
        made = PassedTensor(shape, self._dtype, script().add(what, self.ref(), *numbers))
        if self._strides is _UNKNOWN or not self.is_contiguous():
            made._strides = _UNKNOWN
        return made

    def _reordered(self, what: str, *numbers: int, order: Sequence[int] | None) -> "PassedTensor":
        """A view whose dimensions are these of its own, where their number is known."""
        shape = None if order is None else [self.shape[one] for one in order]
        made = self._viewed(what, *numbers, shape=shape)
        if order is not None and self._strides is not _UNKNOWN:
            strides = self.stride()
            made._strides = [strides[one] for one in order]
        return made

    def view(self, *sizes: Any) -> "PassedTensor":
        return self._reshaped("view", sizes)

    def reshape(self, *sizes: Any) -> "PassedTensor":
        return self._reshaped("reshape", sizes)

    def _reshaped(self, what: str, sizes: tuple[Any, ...]) -> "PassedTensor":
        wanted = _sizes(sizes)
        known = wanted if -1 not in wanted else None
        if known is None and self._shape is not None and wanted.count(-1) == 1:
            rest = math.prod(one for one in wanted if one != -1)
            known = tuple(self._shape.numel() // max(rest, 1) if one == -1 else one for one in wanted)
        return self._viewed(what, *wanted, shape=known)

    def view_as(self, other: "PassedTensor") -> "PassedTensor":
        return self.view(*other.shape)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> "PassedTensor":
        shape = None
        if self._shape is not None and self._shape:
            first, last = start_dim % self.ndim, end_dim % self.ndim
            shape = (*self._shape[:first], math.prod(self._shape[first : last + 1]), *self._shape[last + 1 :])
        return self._viewed("flatten", start_dim, end_dim, shape=shape)

    def t(self) -> "PassedTensor":
        return self.transpose(0, 1)

    def transpose(self, a: int, b: int) -> "PassedTensor":
        order = None
        if self._shape is not None:
            order = list(range(self.ndim))
            order[a], order[b] = order[b], order[a]
        return self._reordered("transpose", a, b, order=order)

    def permute(self, *dims: Any) -> "PassedTensor":
        order = _sizes(dims)
        return self._reordered("permute", *order, order=None if self._shape is None else order)

    def squeeze(self, dim: int | None = None) -> "PassedTensor":
        if self._shape is not None:
            at = None if dim is None else dim % max(self.ndim, 1)
            kept = [i for i, one in enumerate(self._shape) if one != 1 or at not in (None, i)]
            return self._reordered("squeeze", *(() if dim is None else (dim,)), order=kept)
        return self._viewed("squeeze", *(() if dim is None else (dim,)))

    def unsqueeze(self, dim: int) -> "PassedTensor":
        shape = None
        if self._shape is not None:
            at = dim if dim >= 0 else dim + self.ndim + 1
            shape = [*self._shape[:at], 1, *self._shape[at:]]
        made = self._viewed("unsqueeze", dim, shape=shape)
        if shape is not None and self._strides is not None and self._strides is not _UNKNOWN:
            # Of one element, so that it does not count.
            made._strides = [*self._strides[:at], 1, *self._strides[at:]]
        return made

    def contiguous(self, memory_format: Any = CONTIGUOUS) -> "PassedTensor":
        if memory_format in CHANNELS_LAST:
            if not self.is_contiguous(memory_format):
                refuse_another_layout(memory_format)
            return self
        return (
            PassedTensor(self._shape, self._dtype, script().add("contiguous", self.ref()))
            if self._ref is not None
            else self
        )

    def clone(self, *_: Any, **__: Any) -> "PassedTensor":
        return PassedTensor(self._shape, self._dtype, script().add("copy", self.ref()))

    def detach(self) -> "PassedTensor":
        return self

    def requires_grad_(self, *_: Any) -> "PassedTensor":
        return self

    def cuda(self, *_: Any, **__: Any) -> "PassedTensor":
        return self

    def to(self, *args: Any, **kwargs: Any) -> "PassedTensor":
        if kwargs.get("memory_format") in CHANNELS_LAST:
            self.contiguous(kwargs["memory_format"])
        for one in (*args, *kwargs.values()):
            if isinstance(one, ElementType) and one is not self.dtype:
                operator_called("to")
            if str(one).startswith("cpu"):
                raise UnrecordableError("reads", "to")
        return self

    def float(self) -> "PassedTensor":
        return self.to(DTYPES["float32"])

    def half(self) -> "PassedTensor":
        return self.to(DTYPES["float16"])

    def item(self) -> NoReturn:
        raise UnrecordableError("reads", "item")

    cpu = numpy = tolist = __bool__ = __float__ = __int__ = __index__ = item

    def __getitem__(self, index: Any) -> "PassedTensor":
        if isinstance(index, int) and self._shape is None:
            return PassedTensor(None, None, script().add("index", self.ref(), index))
        if isinstance(index, int):
            return self._viewed("select", 0, index, shape=self.shape[1:])
        operator_called("index")

    def __iter__(self) -> Iterator["PassedTensor"]:
        """The tensors of several that a function returned: as many as the caller's text has names for."""
        frame = sys._getframe(1)
        for one in dis.get_instructions(frame.f_code):
            if one.offset == frame.f_lasti and one.opname == "UNPACK_SEQUENCE" and one.arg is not None:
                return iter([self[at] for at in range(one.arg)])
        if self._shape is not None:
            return iter([self[at] for at in range(self.shape[0])])
        raise UnrecordableError("other", "goes through what a function of its module returned")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: operator_called(name)


class RandomTensor(PassedTensor):
    """One that was drawn: as a parameter it is the problem's, elsewhere nothing that a verdict could be about."""

    def _itself(self, *_: Any, **__: Any) -> "RandomTensor":
        if CURRENT:  # what it is then is the problem's
            operator_called("of a parameter or a buffer")
        return self

    def _another(self, *_: Any, **__: Any) -> "RandomTensor":
        """Of the same shape: two tables that are made of one are two."""
        return self._itself()._of_shape(self.shape)

    def _of_shape(self, shape: Sequence[int]) -> "RandomTensor":
        made = RandomTensor(shape, self._dtype, None)
        made.__dict__ |= {name: one for name, one in self.__dict__.items() if name == BY_NAME_ALONE}
        return made

    def _viewed(self, what: str, *numbers: int, shape: Sequence[int] | None = None) -> PassedTensor:
        if CURRENT or shape is None:
            return super()._viewed(what, *numbers, shape=shape)
        return self._of_shape(shape)

    def to(self, *args: Any, **kwargs: Any) -> PassedTensor:
        return super().to(*args, **kwargs) if CURRENT else self


def _operator(name: str) -> Any:
    return lambda *_, **__: operator_called(name)


_SIGNS: Final = [
    "add",
    "sub",
    "mul",
    "truediv",
    "pow",
    "matmul",
    "floordiv",
    "mod",
    "and",
    "or",
    "xor",
    "lt",
    "le",
    "gt",
    "ge",
    "neg",
    "abs",
    "invert",
]
for _sign in _SIGNS:
    for _form in (_sign, f"r{_sign}", f"i{_sign}"):
        setattr(PassedTensor, f"__{_form}__", _operator(_sign))
        setattr(RandomTensor, f"__{_form}__", RandomTensor._another)
for _name in ("normal_", "uniform_", "mul_", "div_", "add_", "zero_", "fill_", "clamp_"):
    setattr(RandomTensor, _name, RandomTensor._itself)
for _name in ALIKE:
    setattr(RandomTensor, _name, RandomTensor._another)


class NamedDevice:
    """A device, by its name."""

    def __init__(self, name: Any = "cuda", index: int | None = None) -> None:
        self.name = str(name)
        self.type = self.name.partition(":")[0]
        self.index = 0 if index is None else index

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return self.type == str(other).partition(":")[0]

    def __hash__(self) -> int:
        return hash(self.type)


def _sizes(given: tuple[Any, ...]) -> tuple[int, ...]:
    found = given[0] if len(given) == 1 and isinstance(given[0], list | tuple) else given
    return tuple(int(one) for one in found)


def allocated(fill: float | None) -> Any:
    """`torch.empty`, `zeros`, `ones`."""

    def make(*sizes: Any, dtype: ElementType | None = None, memory_format: Any = None, **_: Any) -> PassedTensor:
        refuse_another_layout(memory_format)
        made = PassedTensor(_sizes(sizes), dtype or DTYPES["float32"], None, fill)
        made._allocated = True
        return made

    return make


def allocated_like(fill: float | None) -> Any:
    """`torch.empty_like` and such."""

    def make(
        like: PassedTensor, dtype: ElementType | None = None, memory_format: Any = None, **_: Any
    ) -> PassedTensor:
        refuse_another_layout(memory_format)
        return allocated(fill)(like.shape, dtype=dtype or like.dtype)  # type: ignore[no-any-return]

    return make


def full(size: Any, fill_value: float, dtype: ElementType | None = None, **_: Any) -> PassedTensor:
    """`torch.full`."""
    return allocated(fill_value)(size, dtype=dtype)  # type: ignore[no-any-return]


def drawn_tensor(*sizes: Any, dtype: ElementType | None = None, **_: Any) -> PassedTensor:
    """`torch.randn` and such."""
    return RandomTensor(_sizes(sizes), dtype or DTYPES["float32"], None)
