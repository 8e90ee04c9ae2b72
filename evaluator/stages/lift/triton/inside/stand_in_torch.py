"""A module in the place of PyTorch, for Python that makes tensors and passes them to kernels, and does no more."""

import contextlib
import math
import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, Final, NoReturn

from evaluator.stages.lift.kernelbench.inside.memory_formats import CONTIGUOUS
from evaluator.stages.lift.triton.inside.dtypes import ALIASES, DTYPES, dtype
from evaluator.stages.lift.triton.inside.memory import NotRecordedError, RecordedMemory
from evaluator.stages.lift.triton.inside.stand_in_tensor import Size, StandInTensor, device
from evaluator.stages.lift.triton.inside.streams import streams_on

VERSION: Final = "2.9.0"
_SHARED_BYTES: Final = 48 << 10
"""Of a block that has not asked for more, on every GPU."""


def module_of(name: str) -> ModuleType:
    """An empty module; what it does not have cannot be recorded."""

    def absent(attribute: str) -> NoReturn:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise NotRecordedError(f"{name}.{attribute}")

    # No class of our own: what a kernel names, Triton copies, unless its type is exactly that of modules.
    module = ModuleType(name)
    vars(module)["__getattr__"] = absent
    return module


def torch_for(
    memory: RecordedMemory, device_name: str, capability: tuple[int, int], facts: dict[str, int]
) -> ModuleType:
    """The module `torch`, whose tensors lie in `memory`; `torch.cuda` says what the device is."""
    torch = module_of("torch")
    for name, kind in DTYPES.items():
        setattr(torch, name, kind)
    for name, means in ALIASES.items():
        setattr(torch, name, DTYPES[means])
    default: list[dtype] = [DTYPES["float32"]]

    def new(shape: Any, kind: dtype | None, where: Any, strides: Any = None) -> StandInTensor:
        if where is not None and device(where).type != "cuda":
            raise NotRecordedError(f"a tensor on the device {where}")
        kind = kind or default[0]
        if strides is not None:
            reach = 1 + sum((e - 1) * s for e, s in zip(shape, strides, strict=True)) if math.prod(shape) else 0
            return StandInTensor(memory, kind, shape, memory.allocate(reach * kind.itemsize), strides)
        return StandInTensor(memory, kind, shape, memory.allocate(math.prod(shape) * kind.itemsize))

    def extents(shape: tuple[Any, ...]) -> Any:
        return shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape

    def empty(
        *shape: Any, size: Any = None, dtype: dtype | None = None, device: Any = None, **_: Any
    ) -> StandInTensor:
        return new(size if size is not None else extents(shape), dtype, device)

    def filled(value: Any) -> Callable[..., StandInTensor]:
        def make(*shape: Any, **named: Any) -> StandInTensor:
            return empty(*shape, **named).fill_(value)

        return make

    def full(
        size: Any, fill_value: Any, *, dtype: dtype | None = None, device: Any = None, **_: Any
    ) -> StandInTensor:
        guessed = DTYPES["bool"] if isinstance(fill_value, bool) else DTYPES["int64"]
        kind = dtype or (None if isinstance(fill_value, float) else guessed)
        return new([size] if isinstance(size, int) else size, kind, device).fill_(fill_value)

    def empty_like(like: StandInTensor, *, dtype: dtype | None = None, device: Any = None, **_: Any) -> StandInTensor:
        strides = None if like.is_contiguous() else _same_order(like)
        return new(like.shape, dtype or like.dtype, device, strides)

    def filled_like(value: Any) -> Callable[..., StandInTensor]:
        return lambda like, **named: empty_like(like, **named).fill_(value)

    def empty_strided(
        size: Any, stride: Any, *, dtype: dtype | None = None, device: Any = None, **_: Any
    ) -> StandInTensor:
        return new(size, dtype, device, stride)

    vars(torch).update(
        Tensor=StandInTensor, Size=Size, dtype=dtype, device=device, __version__=VERSION,
        empty=empty, zeros=filled(0), ones=filled(1), full=full, empty_strided=empty_strided,
        empty_like=empty_like, zeros_like=filled_like(0), ones_like=filled_like(1),
        full_like=lambda like, fill_value, **named: empty_like(like, **named).fill_(fill_value),
        is_tensor=lambda one: isinstance(one, StandInTensor), numel=lambda one: one.numel(),
        get_default_dtype=lambda: default[0], set_default_dtype=lambda kind: default.__setitem__(0, kind),
        set_float32_matmul_precision=lambda _: None, strided="torch.strided",
        contiguous_format=CONTIGUOUS, preserve_format="preserve",
        channels_last="channels_last", channels_last_3d="channels_last_3d",
        inf=math.inf, nan=math.nan, pi=math.pi, e=math.e,
        no_grad=_Nothing, inference_mode=_Nothing, enable_grad=_Nothing,
        version=SimpleNamespace(cuda="13.0", hip=None), backends=_settings(),
        iinfo=_iinfo, finfo=_finfo,
        transpose=lambda one, *dims: one.transpose(*dims), reshape=lambda one, shape: one.reshape(shape),
        flatten=lambda one, *dims: one.flatten(*dims), squeeze=lambda one, *dim: one.squeeze(*dim),
        unsqueeze=lambda one, dim: one.unsqueeze(dim), permute=lambda one, dims: one.permute(dims),
        cuda=_cuda(memory, device_name, capability, facts),
    )  # fmt: skip
    return torch


class _Nothing(contextlib.ContextDecorator):
    """A context without an effect: nothing here has gradients."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __new__(cls, *arguments: Any, **_: Any) -> Any:
        # `@torch.no_grad` without parentheses.
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else super().__new__(cls)

    def __enter__(self) -> "_Nothing":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was changed."""


def _same_order(like: StandInTensor) -> tuple[int, ...]:
    """Strides of a dense tensor whose dimensions lie in the order of another's."""
    strides, step = [0] * like.ndim, 1
    for dim in sorted(range(like.ndim), key=lambda one: like.stride(one)):
        strides[dim] = step
        step *= like.shape[dim]
    return tuple(strides)


def _iinfo(kind: dtype) -> SimpleNamespace:
    bits = 8 * kind.itemsize
    low = -(1 << bits - 1) if kind.is_signed else 0
    return SimpleNamespace(bits=bits, min=low, max=low + (1 << bits) - 1)


def _finfo(kind: dtype) -> SimpleNamespace:
    bits, exponent = {"float64": (52, 1023), "float32": (23, 127), "float16": (10, 15), "bfloat16": (7, 127)}[
        kind.name
    ]
    most = (2 - 2.0**-bits) * 2.0**exponent
    return SimpleNamespace(bits=8 * kind.itemsize, eps=2.0**-bits, max=most, min=-most, tiny=2.0 ** (1 - exponent))


def _settings() -> SimpleNamespace:
    """`torch.backends`, which may be set: no operator is carried out here that would follow it."""
    matmul = SimpleNamespace(allow_tf32=False)
    return SimpleNamespace(
        cuda=SimpleNamespace(matmul=matmul), cudnn=SimpleNamespace(allow_tf32=True, benchmark=False, enabled=True)
    )


class _Properties(SimpleNamespace):
    def __getattr__(self, name: str) -> NoReturn:
        raise NotRecordedError(f"torch.cuda.get_device_properties().{name}")


def _cuda(memory: RecordedMemory, name: str, capability: tuple[int, int], facts: dict[str, int]) -> ModuleType:
    cuda = module_of("torch.cuda")
    properties = _Properties(
        name=name,
        major=capability[0],
        minor=capability[1],
        warp_size=32,
        multi_processor_count=facts["multiprocessor_count"],
        total_memory=facts["total_memory"],
        L2_cache_size=facts["l2_cache_size"],
        regs_per_multiprocessor=facts["max_num_regs"],
        max_threads_per_multi_processor=facts["max_threads"],
        shared_memory_per_block=_SHARED_BYTES,
        shared_memory_per_block_optin=facts["max_shared_mem"],
    )

    vars(cuda).update(
        **streams_on(memory), device=_on, current_device=lambda: 0, set_device=lambda device: None,
        device_count=lambda: 1, is_available=lambda: True, synchronize=lambda device=None: memory.order("device"),
        get_device_capability=lambda device=None: capability, get_device_name=lambda device=None: name,
        get_device_properties=lambda device=None: properties, empty_cache=lambda: None, init=lambda: None,
    )  # fmt: skip
    return cuda


@contextlib.contextmanager
def _on(_: Any) -> Iterator[None]:
    """`torch.cuda.device`: there is one."""
    yield


def install_stand_in(torch: ModuleType) -> None:
    """Have `import torch` and `import torch.cuda` find it, in this process."""
    sys.modules["torch"] = torch
    sys.modules["torch.cuda"] = torch.cuda
