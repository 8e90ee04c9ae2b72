"""The module `torch` that a solution imports here: modules with parameters, `load_inline`, and names that refuse."""

import math
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final

from evaluator.stages.lift.kernelbench.inside.tensors import (
    DTYPES,
    NamedDevice,
    PassedTensor,
    UnrecordableError,
    allocated,
    allocated_like,
    drawn_tensor,
    full,
    operator_called,
    script,
)


class Refusing:
    """A name that this module does not have: calling it is refused by its name, and everything may be set on it."""

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name

    def __getattr__(self, name: str) -> "Refusing":
        if name.startswith("__"):
            raise AttributeError(name)
        return Refusing(f"{self._name}.{name}")

    def __call__(self, *_: Any, **__: Any) -> Any:
        operator_called(str(self.__dict__["_name"]))

    def __setattr__(self, name: str, value: Any) -> None:
        """Settings such as `torch.backends.cuda.matmul.allow_tf32` change nothing here."""


class HeldParameter(PassedTensor):
    """A tensor that a module registers: an input of the problem, where it has one like it."""

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        if not isinstance(data, PassedTensor):
            raise UnrecordableError("other", "makes a parameter of something that is no tensor")
        made = super().__new__(cls)
        made.__dict__.update(data.__dict__)
        return made

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        """It has all of `data`."""


class HoldingModule:
    """`torch.nn.Module`."""

    training = True

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def register_parameter(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def register_buffer(self, name: str, value: Any, persistent: bool = True) -> None:
        setattr(self, name, value)

    def add_module(self, name: str, module: Any) -> None:
        setattr(self, name, module)

    def named_children(self) -> Iterator[tuple[str, "HoldingModule"]]:
        for name, value in vars(self).items():
            if isinstance(value, HoldingModule):
                yield name, value

    def children(self) -> Iterator["HoldingModule"]:
        return (one for _, one in self.named_children())

    def named_parameters(self, *_: Any, **__: Any) -> Iterator[tuple[str, PassedTensor]]:
        """Parameters and buffers, in the order in which they were set."""
        for name, value in vars(self).items():
            if isinstance(value, PassedTensor):
                yield name, value
        for name, child in self.named_children():
            for inner, value in child.named_parameters():
                yield f"{name}.{inner}", value

    def parameters(self) -> Iterator[PassedTensor]:
        return (one for _, one in self.named_parameters())

    def apply(self, function: Callable[["HoldingModule"], Any]) -> "HoldingModule":
        return self

    def _itself(self, *_: Any, **__: Any) -> "HoldingModule":
        return self

    to = cuda = eval = train = requires_grad_ = float = reset_parameters = _itself

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def forward(self, *_: Any, **__: Any) -> Any:
        operator_called(type(self).__name__)


class _Sequence(HoldingModule):
    def __init__(self, *modules: Any) -> None:
        held = modules[0] if len(modules) == 1 and isinstance(modules[0], list | tuple) else modules
        for at, one in enumerate(held):
            setattr(self, str(at), one)

    def append(self, one: Any) -> Any:
        setattr(self, str(len(self)), one)
        return self

    def __len__(self) -> int:
        return len(vars(self))

    def __iter__(self) -> Iterator[Any]:
        return iter(vars(self).values())

    def __getitem__(self, at: int) -> Any:
        return list(vars(self).values())[at]


class Sequential(_Sequence):
    """`torch.nn.Sequential`."""

    def forward(self, x: Any) -> Any:
        for one in self:
            x = one(x)
        return x


class ModuleList(_Sequence):
    """`torch.nn.ModuleList`, and of parameters."""


class Identity(HoldingModule):
    """`torch.nn.Identity`."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """It takes anything."""

    def forward(self, x: Any) -> Any:
        return x


def _tuple(value: Any, many: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,) * many


class Linear(HoldingModule):
    """`torch.nn.Linear`."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True, **_: Any) -> None:
        self.in_features, self.out_features = in_features, out_features
        self.weight = HeldParameter(drawn_tensor(out_features, in_features))
        self.bias = HeldParameter(drawn_tensor(out_features)) if bias else None


def _convolution(name: str, dims: int, transposed: bool) -> type[HoldingModule]:
    class Convolution(HoldingModule):
        def __init__(
            self,
            in_channels: int,
            out_channels: int,
            kernel_size: Any,
            stride: Any = 1,
            padding: Any = 0,
            *others: Any,
            groups: int = 1,
            bias: bool = True,
            dilation: Any = 1,
            output_padding: Any = 0,
            **_: Any,
        ) -> None:
            if others and transposed:
                output_padding, groups, bias = (*others, *(output_padding, groups, bias)[len(others) :])[:3]
            elif others:
                dilation, groups, bias = (*others, *(dilation, groups, bias)[len(others) :])[:3]
            self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
            self.kernel_size, self.stride = _tuple(kernel_size, dims), _tuple(stride, dims)
            self.padding, self.dilation = _tuple(padding, dims), _tuple(dilation, dims)
            self.output_padding = _tuple(output_padding, dims)
            first, second = (in_channels, out_channels) if transposed else (out_channels, in_channels)
            self.weight = HeldParameter(drawn_tensor(first, second // groups, *self.kernel_size))
            self.bias = HeldParameter(drawn_tensor(out_channels)) if bias else None

    Convolution.__name__ = name
    return Convolution


class _Norm(HoldingModule):
    def __init__(self, shape: Any, eps: float = 1e-5, affine: bool = True, bias: bool = True, **_: Any) -> None:
        self.eps = eps
        self.normalized_shape = _tuple(shape, 1)
        self.num_features = math.prod(self.normalized_shape)
        self.weight = HeldParameter(allocated(1.0)(self.normalized_shape)) if affine else None
        self.bias = HeldParameter(allocated(0.0)(self.normalized_shape)) if affine and bias else None


class LayerNorm(_Norm):
    """`torch.nn.LayerNorm`."""

    def __init__(
        self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True, **_: Any
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, bias)


class BatchNorm(_Norm):
    """`torch.nn.BatchNorm1d` to `3d`."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True, **_: Any
    ) -> None:
        super().__init__(num_features, eps, affine)
        self.momentum = momentum
        self.running_mean = allocated(0.0)(num_features)
        self.running_var = allocated(1.0)(num_features)


class GroupNorm(_Norm):
    """`torch.nn.GroupNorm`."""

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, **_: Any) -> None:
        super().__init__(num_channels, eps, affine)
        self.num_groups, self.num_channels = num_groups, num_channels


class Embedding(HoldingModule):
    """`torch.nn.Embedding`."""

    def __init__(self, num_embeddings: int, embedding_dim: int, **_: Any) -> None:
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.weight = HeldParameter(drawn_tensor(num_embeddings, embedding_dim))


class _Plain(HoldingModule):
    """A module without parameters, which computes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        for name, value in kwargs.items():
            setattr(self, name, value)


class ForwardFunction:
    """`torch.autograd.Function`: its forward, called at once."""

    @classmethod
    def apply(cls, *args: Any) -> Any:
        return cls.forward(_Context(), *args)  # type: ignore[attr-defined]


class _Context:
    def save_for_backward(self, *_: Any) -> None:
        """Nothing goes back."""

    def mark_non_differentiable(self, *_: Any) -> None:
        """Nothing goes back."""


# --- functions that are compiled ------------------------------------------------------------------------------

MODULES: list[dict[str, Any]] = []
"""What each `load_inline` was given."""


class CompiledModule:
    """The module that `load_inline` returns: each of its functions is a line of the script."""

    def __init__(self, functions: list[str] | None) -> None:
        self._functions = functions

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._functions is not None and name not in self._functions:
            raise AttributeError(f"module has no attribute '{name}'; `functions` names {', '.join(self._functions)}")
        return lambda *args, **kwargs: _called(name, args, kwargs)


def _called(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> PassedTensor:
    if kwargs:
        raise UnrecordableError("other", f"calls {name} with arguments by name")
    refs = [_written(one) for one in args]
    return PassedTensor(None, None, script().add("call", *refs, text=name.encode().hex()))


def _written(value: Any) -> int:
    if isinstance(value, PassedTensor):
        return value.ref()
    if value is None:
        return script().add("none")
    if isinstance(value, bool | int):
        return script().add("bool" if isinstance(value, bool) else "int", int(value))
    if isinstance(value, float):
        return script().add("float", text=repr(value))
    if isinstance(value, str):
        return script().add("text", text=value.encode().hex() or "-")
    if isinstance(value, list | tuple):
        return script().add("list", *[_written(one) for one in value])
    raise UnrecordableError("other", f"passes a {type(value).__name__} to a function of its module")


def load_inline(
    name: str = "",
    cpp_sources: Any = "",
    cuda_sources: Any = "",
    functions: Any = None,
    extra_cflags: Any = None,
    extra_cuda_cflags: Any = None,
    **_: Any,
) -> CompiledModule:
    """`torch.utils.cpp_extension.load_inline`."""
    named = [functions] if isinstance(functions, str) else None if functions is None else list(functions)
    texts = [
        one for given in (cpp_sources, cuda_sources) for one in ([given] if isinstance(given, str) else given or [])
    ]
    MODULES.append({"sources": texts, "functions": named, "flags": [str(one) for one in extra_cuda_cflags or ()]})
    return CompiledModule(named)


# --- the module -----------------------------------------------------------------------------------------------

_DIMS: Final = (1, 2, 3)
_PLAIN: Final = [
    "ReLU",
    "ReLU6",
    "LeakyReLU",
    "ELU",
    "SELU",
    "CELU",
    "GELU",
    "SiLU",
    "Mish",
    "Sigmoid",
    "Tanh",
    "Softmax",
    "LogSoftmax",
    "Softplus",
    "Softsign",
    "Hardtanh",
    "Hardsigmoid",
    "Hardswish",
    "Dropout",
    "Dropout2d",
    "Flatten",
    "Unflatten",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "Upsample",
    "MSELoss",
    "CrossEntropyLoss",
    "L1Loss",
    "SmoothL1Loss",
    "HingeEmbeddingLoss",
    "TripletMarginLoss",
    "KLDivLoss",
    "PixelShuffle",
    "ZeroPad2d",
]


def _quiet(*_: Any, **__: Any) -> None:
    """A setting, which changes nothing here."""


def _guard(*args: Any, **__: Any) -> Any:
    """`torch.no_grad` and such: around a block, or above a function."""
    return args[0] if args and callable(args[0]) else _Guard()


class _Guard:
    def __enter__(self) -> None:
        """Nothing is kept for gradients."""

    def __exit__(self, *_: Any) -> None:
        """Nothing was changed."""

    def __call__(self, function: Any) -> Any:
        return function


class _Named(ModuleType):
    """A module in which each name that it lacks refuses."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Refusing(f"{self.__name__}.{name}")


def install_torch() -> None:
    """Have `import torch` give what is here."""
    sys.modules["triton"] = None  # type: ignore[assignment]  # its kernels are none that are compiled here
    torch = _module("torch", DTYPES)
    aliases = {"float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32"}
    vars(torch).update({name: DTYPES[one] for name, one in aliases.items()})
    vars(torch).update(
        Tensor=PassedTensor,
        Size=tuple,
        device=NamedDevice,
        empty=allocated(None),
        zeros=allocated(0.0),
        ones=allocated(1.0),
        full=full,
        empty_like=allocated_like(None),
        zeros_like=allocated_like(0.0),
        ones_like=allocated_like(1.0),
        rand=drawn_tensor,
        randn=drawn_tensor,
        no_grad=_guard,
        inference_mode=_guard,
        enable_grad=_guard,
        manual_seed=_quiet,
        set_default_dtype=_quiet,
        set_float32_matmul_precision=_quiet,
        is_tensor=lambda one: isinstance(one, PassedTensor),
        contiguous_format="contiguous",
    )
    layers = {f"Conv{n}d": _convolution(f"Conv{n}d", n, False) for n in _DIMS}
    layers |= {f"ConvTranspose{n}d": _convolution(f"ConvTranspose{n}d", n, True) for n in _DIMS}
    layers |= {f"BatchNorm{n}d": BatchNorm for n in _DIMS} | {name: type(name, (_Plain,), {}) for name in _PLAIN}
    own: dict[str, Any] = {"Module": HoldingModule, "Parameter": HeldParameter, "ParameterList": ModuleList}
    own |= {one.__name__: one for one in (Sequential, ModuleList, Identity, Linear, LayerNorm, GroupNorm, Embedding)}
    nn = _module("torch.nn", layers | own)
    functional = _module("torch.nn.functional", {})
    init = _module("torch.nn.init", {})
    init.__getattr__ = lambda name: lambda tensor, *_, **__: tensor  # type: ignore[method-assign]
    cpp_extension = _module("torch.utils.cpp_extension", {"load_inline": load_inline, "CUDA_HOME": "/usr/local/cuda"})
    utils = _module("torch.utils", {"cpp_extension": cpp_extension})
    cuda = _module(
        "torch.cuda",
        {"is_available": lambda: True, "synchronize": _quiet, "current_device": lambda: 0, "empty_cache": _quiet},
    )
    autograd = _module("torch.autograd", {"Function": ForwardFunction})
    vars(nn).update(
        functional=functional, init=init, parameter=_module("torch.nn.parameter", {"Parameter": HeldParameter})
    )
    vars(torch).update(nn=nn, utils=utils, cuda=cuda, autograd=autograd)


def _module(name: str, held: Any) -> ModuleType:
    made = _Named(name)
    made.__path__ = []
    vars(made).update(held)
    sys.modules[name] = made
    return made
