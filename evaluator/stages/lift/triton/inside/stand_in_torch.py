"""A module in the place of PyTorch, for Python that makes tensors and passes them to kernels, and does no more."""

import contextlib
import math
import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

from evaluator.stages.lift.kernelbench.inside.layout import (
    CHANNELS_LAST,
    CHANNELS_LAST_3D,
    CONTIGUOUS,
    PRESERVE,
    packed_strides,
    strides_like,
)
from evaluator.stages.lift.kernelbench.inside.names import (
    ADVICE,
    COMPILED_BY,
    TYPED,
    VERSION,
    ImportedByName,
    carried_out_as,
    class_named,
    custom_forward,
    facts_of_the_device,
)
from evaluator.stages.lift.triton.inside.dtypes import ALIASES, DTYPES, dtype
from evaluator.stages.lift.triton.inside.memory import NotRecordedError, RecordedMemory
from evaluator.stages.lift.triton.inside.stand_in_tensor import Size, StandInTensor, device
from evaluator.stages.lift.triton.inside.streams import streams_on


def module_of(name: str, **held: Any) -> ModuleType:
    """A module that has this; what it does not have cannot be recorded."""

    def absent(attribute: str) -> NoReturn:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise NotRecordedError(f"{name}.{attribute}")

    # No class of our own: what a kernel names, Triton copies, unless its type is exactly that of modules.
    module = ModuleType(name)
    vars(module).update(held, __getattr__=absent)
    return module


def torch_for(memory: RecordedMemory, told: dict[str, Any]) -> ModuleType:
    """The module `torch`, whose tensors lie in `memory`; `torch.cuda` says what the device is, as `told`."""
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
        *shape: Any,
        size: Any = None,
        dtype: dtype | None = None,
        device: Any = None,
        memory_format: Any = CONTIGUOUS,
        **_: Any,
    ) -> StandInTensor:
        sizes = size if size is not None else extents(shape)
        return new(
            sizes, dtype, device, None if memory_format == CONTIGUOUS else packed_strides(sizes, memory_format)
        )

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

    def empty_like(
        like: StandInTensor,
        *,
        dtype: dtype | None = None,
        device: Any = None,
        memory_format: Any = PRESERVE,
        **_: Any,
    ) -> StandInTensor:
        kept = memory_format == PRESERVE
        strides = strides_like(like.shape, like.stride()) if kept else packed_strides(like.shape, memory_format)
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
        contiguous_format=CONTIGUOUS, preserve_format=PRESERVE, channels_last=CHANNELS_LAST,
        channels_last_3d=CHANNELS_LAST_3D,
        inf=math.inf, nan=math.nan, pi=math.pi, e=math.e,
        no_grad=_Nothing, inference_mode=_Nothing, enable_grad=_Nothing,
        version=SimpleNamespace(cuda=COMPILED_BY, hip=None), backends=_settings(),
        iinfo=_iinfo, finfo=_finfo,
        transpose=lambda one, *dims: one.transpose(*dims), reshape=lambda one, shape: one.reshape(shape),
        flatten=lambda one, *dims: one.flatten(*dims), squeeze=lambda one, *dim: one.squeeze(*dim),
        unsqueeze=lambda one, dim: one.unsqueeze(dim), permute=lambda one, dims: one.permute(dims),
        cuda=_cuda(memory, told), amp=_amp(), autocast=_Nothing, compile=carried_out_as, set_grad_enabled=_Nothing,
        is_autocast_enabled=lambda *_: False, is_grad_enabled=lambda: True,
        **{name: class_named(name, _refused, _refused) for name in TYPED},
        **{name: module_of(f"torch.{name}", **held) for name, held in ADVICE.items()},
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


def _settings() -> ModuleType:
    """`torch.backends`, which may be set: no operator is carried out here that would follow it."""
    matmul = module_of("torch.backends.cuda.matmul", allow_tf32=False, allow_fp16_reduced_precision_reduction=True)
    cudnn = module_of("torch.backends.cudnn", allow_tf32=True, benchmark=False, enabled=True, deterministic=False)
    cuda = module_of("torch.backends.cuda", matmul=matmul, is_built=lambda: True)
    return module_of("torch.backends", cuda=cuda, cudnn=cudnn)


def _cuda(memory: RecordedMemory, told: dict[str, Any]) -> ModuleType:
    cuda = module_of("torch.cuda")
    nvtx = module_of("torch.cuda.nvtx", range_push=_quiet, range_pop=_quiet, range=_Nothing, mark=_quiet)
    vars(cuda).update(
        **streams_on(memory), **facts_of_the_device(told), device=_on, current_device=lambda: 0, set_device=_quiet,
        device_count=lambda: 1, is_available=lambda: True, synchronize=lambda device=None: memory.order("device"),
        empty_cache=_quiet, init=_quiet, nvtx=nvtx, amp=_amp(),
    )  # fmt: skip
    return cuda


def _amp() -> ModuleType:
    return module_of("torch.amp", autocast=_Nothing, custom_fwd=custom_forward, custom_bwd=custom_forward)


def _refused(*_: Any, **__: Any) -> NoReturn:
    raise NotRecordedError("a tensor's class of one type")


def _quiet(*_: Any, **__: Any) -> None:
    """A setting, which changes nothing here."""


@contextlib.contextmanager
def _on(_: Any) -> Iterator[None]:
    """`torch.cuda.device`: there is one."""
    yield


def install_stand_in(torch: ModuleType) -> None:
    """Have `import torch` and `import torch.cuda` find it, in this process."""
    sys.modules["torch"] = torch
    sys.modules["torch.cuda"] = torch.cuda
    for one in (torch, torch.cuda):
        one.__path__ = []
    sys.meta_path.append(ImportedByName(module_of))
