"""Tensors that are a type, a shape and an address: what of PyTorch's `Tensor` says nothing about their contents."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from evaluator.stages.lift.kernelbench.inside.layout import (
    CONTIGUOUS,
    PRESERVE,
    is_dense,
    lies_as,
    packed_strides,
    permuted_to,
    strides_like,
)
from evaluator.stages.lift.triton.inside.dtypes import ALIASES, DTYPES, dtype
from evaluator.stages.lift.triton.inside.memory import NotRecordedError, ReadsDataError, RecordedMemory


class Size(tuple[int, ...]):
    """As `torch.Size`."""

    def numel(self) -> int:
        return math.prod(self)


class device:  # noqa: N801 - as PyTorch calls it
    """As `torch.device`; there is one, `cuda:0`."""

    def __init__(self, kind: Any = "cuda", index: int | None = None) -> None:
        kind, _, number = str(kind).partition(":")
        self.type = "cuda" if kind.isdigit() else kind
        self.index: int | None = int(number) if number else index
        if self.type not in ("cuda", "cpu", "meta") or self.index not in (None, 0):
            raise RuntimeError(f"there is no device {kind}:{number}")

    def __repr__(self) -> str:
        return f"device(type={self.type!r}, index={self.index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index or 0) == (other.type, other.index or 0)

    def __hash__(self) -> int:
        return hash(self.type)

    def __enter__(self) -> "device":
        return self

    def __exit__(self, *_: object) -> None:
        """There is no other device to go back to."""


class StandInTensor:
    """A tensor on the device. What would need its contents, or an operator, raises NotRecordedError."""

    is_cuda = True
    requires_grad = False
    is_sparse = False
    grad = None
    layout = "torch.strided"

    def __init__(
        self,
        memory: RecordedMemory,
        kind: dtype,
        shape: Sequence[int],
        address: int,
        strides: Sequence[int] | None = None,
    ) -> None:
        self._memory, self._address = memory, address
        self.dtype, self.shape = kind, Size(int(one) for one in shape)
        self._strides = tuple(strides) if strides is not None else packed_strides(self.shape)
        self.device = device("cuda", 0)

    def _become(self, other: "StandInTensor") -> None:
        """Be in the place of another: a parameter is an input of the problem."""
        self._address, self._strides, self.dtype = other._address, other._strides, other.dtype

    # --- what it is -------------------------------------------------------------------------------------------------

    def data_ptr(self) -> int:
        """Null where there is nothing, as in PyTorch: what is passed in place of a tensor."""
        return self._address if all(self.shape) else 0

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim: int | None = None) -> Any:
        return self._strides if dim is None else self._strides[dim]

    def numel(self) -> int:
        return math.prod(self.shape)

    nelement = numel

    def dim(self) -> int:
        return len(self.shape)

    ndimension = dim

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.numel() * self.dtype.itemsize

    def element_size(self) -> int:
        return self.dtype.itemsize

    def get_device(self) -> int:
        return 0

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def is_contiguous(self, memory_format: Any = CONTIGUOUS) -> bool:
        return lies_as(self.shape, self._strides, memory_format)

    def _is_dense(self) -> bool:
        return is_dense(self.shape, self._strides)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"tensor(..., device='cuda:0', size={tuple(self.shape)}, dtype={self.dtype})"

    def __hash__(self) -> int:
        return id(self)

    # --- the same memory, seen otherwise ----------------------------------------------------------------------------

    def _seen(self, shape: Sequence[int], strides: Sequence[int] | None = None, elements: int = 0) -> "StandInTensor":
        return StandInTensor(self._memory, self.dtype, shape, self._address + elements * self.dtype.itemsize, strides)

    def view(self, *shape: Any) -> "StandInTensor":
        if len(shape) == 1 and isinstance(shape[0], dtype):
            return self._as(shape[0])
        wanted = list(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)
        if wanted.count(-1) == 1:
            rest = -math.prod(wanted)
            wanted[wanted.index(-1)] = self.numel() // rest if rest else 0
        if math.prod(wanted) != self.numel():
            raise RuntimeError(f"shape {wanted} is invalid for a tensor of {self.numel()} elements")
        if not self.is_contiguous():
            raise NotRecordedError("a view of a tensor that is not contiguous, in another shape")
        return self._seen(wanted)

    reshape = view

    def _as(self, kind: dtype) -> "StandInTensor":
        if kind.itemsize != self.dtype.itemsize:
            raise NotRecordedError("a view in a type of another size")
        return StandInTensor(self._memory, kind, self.shape, self._address, self._strides)

    def view_as(self, other: "StandInTensor") -> "StandInTensor":
        return self.view(*other.shape)

    reshape_as = view_as

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> "StandInTensor":
        end = end_dim % max(1, self.ndim)
        return self.view(*self.shape[:start_dim], math.prod(self.shape[start_dim : end + 1]), *self.shape[end + 1 :])

    ravel = flatten

    def permute(self, *dims: Any) -> "StandInTensor":
        order = [one % self.ndim for one in (dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims)]
        return self._seen([self.shape[one] for one in order], [self._strides[one] for one in order])

    def transpose(self, one: int, other: int) -> "StandInTensor":
        order = list(range(self.ndim))
        order[one], order[other] = order[other], order[one]
        return self.permute(*order)

    swapaxes = transpose

    def t(self) -> "StandInTensor":
        return self.transpose(0, 1) if self.ndim == 2 else self

    @property
    def T(self) -> "StandInTensor":  # noqa: N802
        return self.permute(*reversed(range(self.ndim)))

    @property
    def mT(self) -> "StandInTensor":  # noqa: N802
        return self.transpose(-1, -2)

    def unsqueeze(self, dim: int) -> "StandInTensor":
        at = dim % (self.ndim + 1)
        step = self._strides[at] * self.shape[at] if at < self.ndim else 1
        return self._seen([*self.shape[:at], 1, *self.shape[at:]], [*self._strides[:at], step, *self._strides[at:]])

    def squeeze(self, dim: int | None = None) -> "StandInTensor":
        at = range(self.ndim) if dim is None else (dim % self.ndim,)
        kept = [one for one in range(self.ndim) if one not in at or self.shape[one] != 1]
        return self._seen([self.shape[one] for one in kept], [self._strides[one] for one in kept])

    def expand(self, *shape: Any) -> "StandInTensor":
        wanted = list(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)
        new = len(wanted) - self.ndim
        old = [1] * new + list(self.shape)
        extents = [have if want == -1 else want for want, have in zip(wanted, old, strict=True)]
        if any(have not in (1, want) for want, have in zip(extents, old, strict=True)):
            raise RuntimeError(f"a tensor of shape {tuple(self.shape)} cannot be expanded to {tuple(wanted)}")
        steps = [0] * new + list(self._strides)
        return self._seen(extents, [s if w == h else 0 for w, h, s in zip(extents, old, steps, strict=True)])

    def select(self, dim: int, index: int) -> "StandInTensor":
        return self[(slice(None),) * (dim % self.ndim) + (index,)]

    def narrow(self, dim: int, start: int, length: int) -> "StandInTensor":
        return self[(slice(None),) * (dim % self.ndim) + (slice(start, start + length),)]

    def __getitem__(self, index: Any) -> "StandInTensor":
        parts = list(index) if isinstance(index, tuple) else [index]
        if Ellipsis in [part if part is Ellipsis else 0 for part in parts]:
            at = next(number for number, part in enumerate(parts) if part is Ellipsis)
            gone = sum(part is not None and part is not Ellipsis for part in parts)
            parts[at : at + 1] = [slice(None)] * (self.ndim - gone)
        shape: list[int] = []
        strides: list[int] = []
        elements = dim = 0
        new: list[int] = []
        for part in parts:
            if part is None:
                new.append(len(shape) + len(new))
                continue
            if dim >= self.ndim:
                raise IndexError(f"too many indices for a tensor of {self.ndim} dimensions")
            extent, step = self.shape[dim], self._strides[dim]
            if isinstance(part, slice):
                start, stop, by = part.indices(extent)
                shape.append(max(0, -(-(stop - start) // by)))
                strides.append(step * by)
                elements += start * step
            elif isinstance(part, int):
                if not -extent <= part < extent:
                    raise IndexError(f"index {part} is out of bounds for dimension {dim} with size {extent}")
                elements += part % extent * step
            else:
                raise NotRecordedError("indexing with something else than numbers and slices")
            dim += 1
        found = self._seen([*shape, *self.shape[dim:]], [*strides, *self._strides[dim:]], elements)
        for at in new:
            found = found.unsqueeze(at)
        return found

    def __iter__(self) -> Iterator["StandInTensor"]:
        return (self[number] for number in range(len(self)))

    def unbind(self, dim: int = 0) -> tuple["StandInTensor", ...]:
        return tuple(self.select(dim, number) for number in range(self.shape[dim]))

    def chunk(self, chunks: int, dim: int = 0) -> tuple["StandInTensor", ...]:
        return self.split(-(-self.shape[dim] // chunks), dim)

    def split(self, size: Any, dim: int = 0) -> tuple["StandInTensor", ...]:
        extent = self.shape[dim]
        if isinstance(size, int):
            size = [min(size, extent - at) for at in range(0, extent, size)]
        if sum(size) != extent:
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {extent}, but got {list(size)}"
            )
        return tuple(self.narrow(dim, sum(size[:at]), one) for at, one in enumerate(size))

    split_with_sizes = split

    def detach(self) -> "StandInTensor":
        return self

    @property
    def data(self) -> "StandInTensor":
        return self

    @data.setter
    def data(self, other: "StandInTensor") -> None:
        """It is in the other's memory then. What a model replaces its parameters by is still the problem's."""
        held = vars(other) | {name: one for name, one in vars(self).items() if name == "_parameter"}
        self.__class__ = other.__class__
        self.__dict__.clear()
        self.__dict__.update(held)

    def requires_grad_(self, requires_grad: bool = True) -> "StandInTensor":
        return self

    def record_stream(self, stream: Any) -> None:
        """There is one stream."""

    def contiguous(self, memory_format: Any = CONTIGUOUS) -> "StandInTensor":
        if memory_format == PRESERVE:
            raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
        return self if self.is_contiguous(memory_format) else self._copied(self.dtype, memory_format)

    def _copied(self, kind: dtype, memory_format: Any) -> "StandInTensor":
        """The elements anew, in a type and a memory format, by a kernel of ours."""
        if memory_format == CONTIGUOUS:
            made: StandInTensor = self._memory.copied(self, kind)
            return made
        packed_strides(self.shape, memory_format)  # which raises for another rank
        order, back = permuted_to(memory_format)
        made = self._memory.copied(self.permute(*order), kind)
        return made.permute(*back)

    def to(
        self,
        *wanted: Any,
        copy: bool = False,
        memory_format: Any = PRESERVE,
        non_blocking: bool = False,
        **named: Any,
    ) -> "StandInTensor":
        to = self.dtype
        for one in (*wanted, *named.values()):
            kind = one.dtype if isinstance(one, StandInTensor) else one
            if isinstance(kind, dtype):
                to = kind
            if isinstance(kind, device | str) and device(kind).type != "cuda":
                raise ReadsDataError(f"Tensor.to({str(kind)!r})")
        switches = [one for one in wanted if isinstance(one, bool)]  # non_blocking and copy
        made = self if to is self.dtype else self._memory.copied(self, to)
        if memory_format != PRESERVE:
            made = made.contiguous(memory_format)
        return made.clone() if made is self and (copy or switches[1:] == [True]) else made

    def cuda(self, *_: Any, memory_format: Any = PRESERVE, **__: Any) -> "StandInTensor":
        return self.to(memory_format=memory_format)

    def type(self, kind: Any = None) -> Any:
        return self.to(kind) if kind is not None else f"torch.cuda.{self.dtype.name}"

    # --- what changes it --------------------------------------------------------------------------------------------

    def fill_(self, value: Any) -> "StandInTensor":
        if isinstance(value, StandInTensor):
            raise NotRecordedError("Tensor.fill_ with a tensor")
        if not self._is_dense():
            raise NotRecordedError("a fill of a tensor that is not contiguous")
        self._memory.fill(self._address, self.dtype.packed(value), self.nbytes)
        return self

    def zero_(self) -> "StandInTensor":
        return self.fill_(0)

    def copy_(self, source: "StandInTensor", non_blocking: bool = False) -> "StandInTensor":
        if not isinstance(source, StandInTensor):
            raise NotRecordedError("a copy from something else than a tensor")
        if source.dtype is not self.dtype or source.shape != self.shape:
            raise NotRecordedError("a copy between tensors of different types or shapes")
        same = all(e == 1 or a == b for e, a, b in zip(self.shape, self._strides, source._strides, strict=True))
        if not (self._is_dense() and (same or not self.numel())):
            raise NotRecordedError("a copy of a tensor that is not contiguous")
        self._memory.no_output(source._address)
        self._memory.copy(self._address, source._address, self.nbytes)
        return self

    def clone(self, memory_format: Any = PRESERVE) -> "StandInTensor":
        strides = strides_like(self.shape, self._strides)
        if memory_format != PRESERVE:
            strides = packed_strides(self.shape, memory_format)
            if not self.is_contiguous(memory_format):
                return self._copied(self.dtype, memory_format)
        return self._new(self.shape, None, strides).copy_(self)

    def _new(self, shape: Sequence[int], kind: dtype | None, strides: Sequence[int] | None = None) -> "StandInTensor":
        kind = kind or self.dtype
        address = self._memory.allocate(math.prod(shape) * kind.itemsize)
        return StandInTensor(self._memory, kind, shape, address, strides)

    def new_empty(self, *shape: Any, dtype: dtype | None = None, **_: Any) -> "StandInTensor":
        return self._new(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape, dtype)

    def new_zeros(self, *shape: Any, dtype: dtype | None = None, **_: Any) -> "StandInTensor":
        return self.new_empty(*shape, dtype=dtype).zero_()

    def new_ones(self, *shape: Any, dtype: dtype | None = None, **_: Any) -> "StandInTensor":
        return self.new_empty(*shape, dtype=dtype).fill_(1)

    def new_full(self, shape: Any, value: Any, dtype: dtype | None = None, **_: Any) -> "StandInTensor":
        return self.new_empty(*shape, dtype=dtype).fill_(value)

    def __setitem__(self, index: Any, value: Any) -> None:
        target = self[index]
        if isinstance(value, StandInTensor):
            target.copy_(value)
        else:
            target.fill_(value)

    # --- what nobody can say ----------------------------------------------------------------------------------------

    def _reads(self, *_: Any, **__: Any) -> NoReturn:
        raise ReadsDataError("Tensor.item() and the like")

    item = tolist = cpu = numpy = any = all = equal = nonzero = _reads
    __bool__ = __int__ = __float__ = __index__ = __contains__ = _reads

    def _operator(self, *_: Any, **__: Any) -> NoReturn:
        raise NotRecordedError("an operator on tensors (+, -, *, /, @, comparisons)")

    __add__ = __radd__ = __iadd__ = __sub__ = __rsub__ = __isub__ = _operator
    __mul__ = __rmul__ = __imul__ = __truediv__ = __rtruediv__ = __itruediv__ = _operator
    __matmul__ = __rmatmul__ = __pow__ = __rpow__ = __mod__ = __floordiv__ = __neg__ = __abs__ = _operator
    __and__ = __or__ = __xor__ = __invert__ = __lshift__ = __rshift__ = _operator
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _operator

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if ALIASES.get(name, name) in DTYPES:  # x.float(), x.half()
            return lambda **named: self.to(DTYPES[ALIASES.get(name, name)], **named)
        raise NotRecordedError(f"torch.Tensor.{name}")
