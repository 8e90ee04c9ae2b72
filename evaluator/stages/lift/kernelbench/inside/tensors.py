"""Tensors that are written down: each use of one is a line of the script that `recorder/extension.cpp` reads."""

import dis
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NoReturn

from evaluator.backends.model_binding import BY_NAME_ALONE, NO_INPUT
from evaluator.stages.lift.kernelbench.inside.layout import (
    CHANNELS_LAST,
    CHANNELS_LAST_3D,
    CONTIGUOUS,
    PRESERVE,
    lies_as,
    packed_strides,
    strides_like,
)
from evaluator.stages.lift.kernelbench.inside.names import FILLING, broadcast
from evaluator.stages.lift.kernelbench.inside.script import (
    CURRENT,
    DTYPES,
    ElementType,
    NamedDevice,
    Script,
    Size,
    UnrecordableError,
    operator_called,
    script,
)
from evaluator.stages.lift.kernelbench.inside.tables import ALIKE

_FORMATS: Final = {CONTIGUOUS: 0, PRESERVE: 1, CHANNELS_LAST: 2, CHANNELS_LAST_3D: 3}
"""Memory formats, by their numbers in c10::MemoryFormat."""
OF_PARAMETER: Final = "_of_parameter"
"""An attribute of a tensor that a model has made of a parameter's contents."""


class PassedTensor:
    """A tensor of the problem, one that was allocated, or what a function returned, whose shape nobody knows."""

    is_cuda = True
    is_parameter = False
    requires_grad = False
    grad = None
    layout = "torch.strided"
    is_leaf = True
    is_sparse = False

    def __init__(
        self,
        shape: Sequence[int] | None,
        dtype: ElementType | None,
        ref: int | None,
        fill: float | None = None,
        strides: Sequence[int] | Literal["packed"] | None = "packed",
    ) -> None:
        """`strides`: None where nobody knows them, as of what a function returned, whose shape is None as well."""
        self._shape, self._dtype, self._fill = None if shape is None else Size(shape), dtype, fill
        self._strides: tuple[int, ...] | None = None
        if shape is not None and strides is not None:
            self._strides = packed_strides(shape) if isinstance(strides, str) else tuple(strides)
        self._allocated = False
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
        self._ref, self._dtype, self._strides = other._ref, other._dtype, other._strides

    def ref(self) -> int:
        """The number of its value in the script."""
        held = self._ref
        if held is None:
            if not self._allocated:
                raise UnrecordableError(
                    "other", "passes on a tensor whose contents are random, or are none of the problem's"
                )
            assert self._shape is not None
            assert self._dtype is not None
            text = "" if self._fill is None else repr(float(self._fill))
            what = "empty" if self._fill is None else "fill"
            strides = self.stride()
            if lies_as(self._shape, strides):
                held = script().add(what, self._dtype.number, *self._shape, text=text)
            else:  # as a packed one whose dimensions change places
                order = sorted(range(self.ndim), key=lambda dim: -strides[dim])
                packed = script().add(what, self._dtype.number, *(self._shape[dim] for dim in order), text=text)
                held = script().add("permute", packed, *(order.index(dim) for dim in range(self.ndim)))
            self._ref = held
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

    @data.setter
    def data(self, other: "PassedTensor") -> None:
        if CURRENT:
            raise UnrecordableError("other", "replaces the data of a tensor")
        held = ("_shape", "_dtype", "_strides", "_fill", "_allocated", NO_INPUT)
        self.__dict__.update({name: one for name, one in vars(other).items() if name in held})

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def T(self) -> "PassedTensor":  # noqa: N802
        return self.t() if self._shape is None else self.permute(*reversed(range(self.ndim)))

    def dim(self) -> int:
        return len(self.shape)

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        return self.shape.numel()

    nelement = numel
    ndimension = dim

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.numel() * self.itemsize

    @property
    def mT(self) -> "PassedTensor":  # noqa: N802
        return self.transpose(-1, -2)

    def element_size(self) -> int:
        return self.dtype.itemsize

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def is_contiguous(self, memory_format: Any = CONTIGUOUS) -> bool:
        if self._strides is None:  # of what a function returned, which the recorder sees
            if memory_format != CONTIGUOUS:
                self._unknown("the memory format")
            script().add("packed", self.ref())
            return True
        return lies_as(self.shape, self._strides, memory_format)

    def stride(self, dim: int | None = None) -> Any:
        if self._strides is None:
            self._unknown("the strides")
        return self._strides if dim is None else self._strides[dim]

    def _unknown(self, what: str) -> NoReturn:
        raise UnrecordableError("other", f"asks for {what} of what a function of its module returned")

    def get_device(self) -> int:
        return 0

    def __len__(self) -> int:
        return self.shape[0]

    def _viewed(
        self, what: str, *numbers: int, shape: Sequence[int] | None = None, strides: Sequence[int] | None = None
    ) -> "PassedTensor":
        if not CURRENT and shape is not None:
            return self._made_of(shape, moved=what in ("transpose", "permute"))
        return PassedTensor(shape, self._dtype, script().add(what, self.ref(), *numbers), strides=strides)

    def _made_of(self, shape: Sequence[int], moved: bool = False) -> "RandomTensor":
        """What a model makes of it while it is made. `moved`: its elements in another order."""
        made = RandomTensor(shape, self._dtype, None)
        flags = (BY_NAME_ALONE, NO_INPUT, OF_PARAMETER)
        made.__dict__.update({name: one for name, one in vars(self).items() if name in flags})
        if self.is_parameter:
            made.__dict__[OF_PARAMETER] = True
        if moved and OF_PARAMETER in vars(made):
            made.__dict__[NO_INPUT] = True
        return made

    def view(self, *sizes: Any) -> "PassedTensor":
        return self._reshaped("view", sizes)

    def reshape(self, *sizes: Any) -> "PassedTensor":
        return self._reshaped("reshape", sizes)

    def _reshaped(self, what: str, sizes: tuple[Any, ...]) -> "PassedTensor":
        wanted = sizes_given(sizes)
        known = wanted if -1 not in wanted else None
        if known is None and self._shape is not None and wanted.count(-1) == 1:
            rest = math.prod(one for one in wanted if one != -1)
            known = tuple(self._shape.numel() // max(rest, 1) if one == -1 else one for one in wanted)
        packed = known is not None and self._strides is not None and lies_as(self.shape, self._strides)
        strides = packed_strides(known) if packed and known is not None else None
        return self._viewed(what, *wanted, shape=known, strides=strides)

    def view_as(self, other: "PassedTensor") -> "PassedTensor":
        return self.view(*other.shape)

    def reshape_as(self, other: "PassedTensor") -> "PassedTensor":
        return self.reshape(*other.shape)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> "PassedTensor":
        shape = strides = None
        if self._shape is not None and self._shape:
            first, last = start_dim % self.ndim, end_dim % self.ndim
            shape = (*self._shape[:first], math.prod(self._shape[first : last + 1]), *self._shape[last + 1 :])
            packed = self._strides is not None and lies_as(self._shape, self._strides)
            strides = packed_strides(shape) if packed else None
        return self._viewed("flatten", start_dim, end_dim, shape=shape, strides=strides)

    def t(self) -> "PassedTensor":
        return self if self._shape is not None and self.ndim < 2 else self.transpose(0, 1)

    def transpose(self, a: int, b: int) -> "PassedTensor":
        if self._shape is None:
            return self._viewed("transpose", a, b)
        order = list(range(self.ndim))
        order[a], order[b] = order[b], order[a]
        return self._viewed("transpose", a, b, shape=self._each(self._shape, order), strides=self._steps(order))

    swapaxes = transpose

    def permute(self, *dims: Any) -> "PassedTensor":
        order = sizes_given(dims)
        shape = None if self._shape is None else self._each(self._shape, order)
        return self._viewed("permute", *order, shape=shape, strides=self._steps(order))

    @staticmethod
    def _each(held: Sequence[int], order: Sequence[int]) -> list[int]:
        return [held[dim] for dim in order]

    def _steps(self, order: Sequence[int]) -> list[int] | None:
        return None if self._strides is None else self._each(self._strides, order)

    def squeeze(self, dim: int | None = None) -> "PassedTensor":
        shape = strides = None
        if self._shape is not None:
            at = None if dim is None else dim % max(self.ndim, 1)
            kept = [i for i, one in enumerate(self._shape) if one != 1 or at not in (None, i)]
            shape, strides = self._each(self._shape, kept), self._steps(kept)
        return self._viewed("squeeze", *(() if dim is None else (dim,)), shape=shape, strides=strides)

    def unsqueeze(self, dim: int) -> "PassedTensor":
        shape = strides = None
        if self._shape is not None:
            at = dim if dim >= 0 else dim + self.ndim + 1
            shape = [*self._shape[:at], 1, *self._shape[at:]]
            if self._strides is not None:
                step = self._strides[at] * self._shape[at] if at < self.ndim else 1
                strides = [*self._strides[:at], step, *self._strides[at:]]
        return self._viewed("unsqueeze", dim, shape=shape, strides=strides)

    def select(self, dim: int, index: int) -> "PassedTensor":
        kept = [one for one in range(self.ndim) if one != dim % self.ndim]
        return self._viewed("select", dim, index, shape=self._each(self.shape, kept), strides=self._steps(kept))

    def narrow(self, dim: int, start: int, length: int) -> "PassedTensor":
        shape = list(self.shape)
        shape[dim] = length
        return self._viewed("narrow", dim, start, length, shape=shape, strides=self._steps(range(self.ndim)))

    def split(self, size: Any, dim: int = 0) -> tuple["PassedTensor", ...]:
        extent = self.shape[dim]
        sizes = [min(size, extent - at) for at in range(0, extent, size)] if isinstance(size, int) else list(size)
        if sum(sizes) != extent:
            raise RuntimeError(f"split_with_sizes expects split_sizes to sum to {extent}, but got {sizes}")
        return tuple(self.narrow(dim, sum(sizes[:at]), one) for at, one in enumerate(sizes))

    def chunk(self, chunks: int, dim: int = 0) -> tuple["PassedTensor", ...]:
        return self.split(max(1, -(-self.shape[dim] // chunks)), dim)

    def unbind(self, dim: int = 0) -> tuple["PassedTensor", ...]:
        return tuple(self.select(dim, at) for at in range(self.shape[dim]))

    def contiguous(self, memory_format: Any = CONTIGUOUS) -> "PassedTensor":
        if not CURRENT and self._shape is not None:
            kept = self._strides is not None and lies_as(self._shape, self._strides, memory_format)
            if kept:
                return self
            made = self._made_of(self._shape)
            made.__dict__[NO_INPUT] = True
            return made
        strides = None if self._shape is None else packed_strides(self._shape, memory_format)
        ref = script().add("contiguous", self.ref(), _FORMATS[memory_format])
        return PassedTensor(self._shape, self._dtype, ref, strides=strides)

    def clone(self, memory_format: Any = PRESERVE) -> "PassedTensor":
        if not CURRENT and self._shape is not None:
            return self._made_of(self._shape)
        strides = None
        if self._shape is not None and memory_format != PRESERVE:
            strides = packed_strides(self._shape, memory_format)
        elif self._shape is not None and self._strides is not None:
            strides = strides_like(self._shape, self._strides)
        ref = script().add("copy", self.ref(), _FORMATS[memory_format])
        return PassedTensor(self._shape, self._dtype, ref, strides=strides)

    def detach(self) -> "PassedTensor":
        return self

    def requires_grad_(self, *_: Any) -> "PassedTensor":
        return self

    def cuda(self, *_: Any, memory_format: Any = PRESERVE, **__: Any) -> "PassedTensor":
        return self.to(memory_format=memory_format)

    def to(self, *args: Any, copy: bool = False, memory_format: Any = PRESERVE, **kwargs: Any) -> "PassedTensor":
        for one in (*args, *kwargs.values()):
            if isinstance(one, ElementType) and self._dtype is None:
                # The recorder sees whether that changes anything.
                made = PassedTensor(
                    self._shape, one, script().add("typed", self.ref(), one.number), strides=self._strides
                )
                return made.to(*args, copy=copy, memory_format=memory_format, **kwargs)
            if isinstance(one, ElementType) and one is not self.dtype:
                operator_called("to")
            if str(one).startswith("cpu"):
                raise UnrecordableError("reads", "to")
        switches = [one for one in args if isinstance(one, bool)]  # non_blocking and copy
        made = self if memory_format == PRESERVE else self.contiguous(memory_format)
        return made.clone() if copy or switches[1:] == [True] else made

    def _filled_anew(self, name: str, *_: Any) -> "PassedTensor":
        """A method that gives it other contents: while a model is made, and then of a parameter or a buffer alone."""
        if CURRENT:
            operator_called(name)
        self._allocated = False
        return self

    def zero_(self) -> "PassedTensor":
        return self._filled_anew("zero_") if CURRENT else self.fill_(0.0)

    def fill_(self, value: Any) -> "PassedTensor":
        if CURRENT or not self._allocated or not isinstance(value, int | float):
            return self._filled_anew("fill_")
        self._fill = float(value)
        return self

    def copy_(self, other: Any, *_: Any) -> "PassedTensor":
        made = self._filled_anew("copy_")
        if isinstance(other, PassedTensor) and NO_INPUT in vars(other):
            made.__dict__[NO_INPUT] = True
        return made

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
        parts = list(index) if isinstance(index, tuple) else [index]
        if any(part is Ellipsis for part in parts):
            at = next(number for number, part in enumerate(parts) if part is Ellipsis)
            named = sum(part is not None and part is not Ellipsis for part in parts)
            parts[at : at + 1] = [slice(None)] * (self.ndim - named)
        found, dim = self, 0
        for part in parts:
            if part is None:
                found = found.unsqueeze(dim)
            elif isinstance(part, int) and not isinstance(part, bool):
                found, dim = found.select(dim, part), dim - 1
            elif isinstance(part, slice) and part.step in (None, 1):
                start, stop, _ = part.indices(found.shape[dim])
                if (start, stop) != (0, found.shape[dim]):
                    found = found.narrow(dim, start, max(0, stop - start))
            else:
                operator_called("index")
            dim += 1
        return found

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
        if CURRENT or OF_PARAMETER in vars(self):  # what it is then is the problem's
            operator_called("of a parameter or a buffer")
        return self

    def _another(self, *_: Any, **__: Any) -> "RandomTensor":
        """Of the same shape: two tables that are made of one are two."""
        return self._itself()._made_of(self.shape)

    def to(self, *args: Any, **kwargs: Any) -> PassedTensor:
        # What a type is while a model is made, its parameter's input says.
        return super().to(*args, **kwargs) if CURRENT else self.contiguous(kwargs.get("memory_format", CONTIGUOUS))


def _operator(name: str) -> Any:
    def called(one: PassedTensor, other: Any = None) -> RandomTensor:
        both = [each for each in (one, other) if isinstance(each, PassedTensor)]
        if CURRENT or name == "matmul" or any(each.is_parameter or OF_PARAMETER in vars(each) for each in both):
            operator_called(name)
        try:
            shape = broadcast(*(each.shape for each in both))
        except ValueError:
            operator_called(name)
        made = one._made_of(shape)
        made.__dict__.update({BY_NAME_ALONE: True} if any(BY_NAME_ALONE in vars(each) for each in both) else {})
        return made

    return called


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
for _name in FILLING:
    if not hasattr(PassedTensor, _name) or _name not in vars(PassedTensor):
        setattr(PassedTensor, _name, lambda one, *_, _called=_name, **__: one._filled_anew(_called))
for _name in ("mul_", "div_", "add_", "sub_", "clamp_"):
    setattr(RandomTensor, _name, RandomTensor._itself)
for _name in ALIKE:
    setattr(RandomTensor, _name, RandomTensor._another)


def sizes_given(given: tuple[Any, ...]) -> tuple[int, ...]:
    """Sizes that are given one by one, or as one list."""
    found = given[0] if len(given) == 1 and isinstance(given[0], list | tuple) else given
    return tuple(int(one) for one in found)
