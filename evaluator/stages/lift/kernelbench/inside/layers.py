"""Modules of `torch.nn` that hold parameters, with tensors of the form that a recording has. They compute nothing."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NoReturn


@dataclass(frozen=True)
class TensorForm:
    """What tensors are in a recording."""

    tensor: type
    parameter: Callable[[Any], Any]
    """`torch.nn.Parameter`."""
    drawn: Callable[..., Any]
    """`torch.randn`."""
    zeros: Callable[..., Any]
    ones: Callable[..., Any]
    refuse: Callable[[str], NoReturn]
    """For an operator, by its name."""


FORM: list[TensorForm] = []
"""Of this process: one."""


_UNHELD: Final = frozenset(
    (
        "_buffers",
        "_get_name",
        "_modules",
        "_parameters",
        "buffers",
        "compile",
        "cpu",
        "get_buffer",
        "get_parameter",
        "get_submodule",
        "load_state_dict",
        "named_buffers",
        "register_backward_hook",
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_full_backward_hook",
        "share_memory",
        "state_dict",
        "to_empty",
        "type",
    )
)
"""Methods of `torch.nn.Module` for which nothing stands here: that is said, and is no fault of the submission."""


def _parameter(data: Any) -> Any:
    return FORM[0].parameter(data)


class HoldingModule:
    """`torch.nn.Module`."""

    # No entry of `vars`, which are a module's parameters and modules.
    __slots__ = ("__dict__", "__weakref__", "_is_made")

    training = True

    def __init__(self) -> None:
        self._is_made = True

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, HoldingModule) and not hasattr(self, "_is_made"):
            raise AttributeError("cannot assign module before Module.__init__() call")
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name in _UNHELD:
            FORM[0].refuse(f"torch.nn.Module.{name}")
        if type(self).__module__ == __name__ and not name.startswith(
            "_"
        ):  # one of ours, which has less than PyTorch's
            FORM[0].refuse(f"torch.nn.{type(self).__name__}.{name}")
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def register_parameter(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def register_buffer(self, name: str, value: Any, persistent: bool = True) -> None:
        setattr(self, name, value)

    def add_module(self, name: str, module: Any) -> None:
        setattr(self, name, module)

    register_module = add_module

    def named_children(self) -> Iterator[tuple[str, "HoldingModule"]]:
        for name, value in vars(self).items():
            if isinstance(value, HoldingModule):
                yield name, value

    def children(self) -> Iterator["HoldingModule"]:
        return (one for _, one in self.named_children())

    def named_modules(self, *_: Any, prefix: str = "", **__: Any) -> Iterator[tuple[str, "HoldingModule"]]:
        """It, and all below it."""
        yield prefix, self
        for name, child in self.named_children():
            yield from child.named_modules(prefix=f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator["HoldingModule"]:
        return (one for _, one in self.named_modules())

    def named_parameters(self, *_: Any, **__: Any) -> Iterator[tuple[str, Any]]:
        """Parameters and buffers, in the order in which they were set."""
        for name, value in vars(self).items():
            if isinstance(value, FORM[0].tensor):
                yield name, value
        for name, child in self.named_children():
            for inner, value in child.named_parameters():
                yield f"{name}.{inner}", value

    def parameters(self) -> Iterator[Any]:
        return (one for _, one in self.named_parameters())

    def apply(self, function: Callable[["HoldingModule"], Any]) -> "HoldingModule":
        return self

    def _itself(self, *_: Any, **__: Any) -> "HoldingModule":
        return self

    to = cuda = eval = train = requires_grad_ = float = reset_parameters = zero_grad = _itself
    half = bfloat16 = double = _itself  # a parameter has the type of the input that it is

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(self, "_is_made"):
            raise AttributeError(f"{type(self).__name__} is called before Module.__init__() call")
        return self.forward(*args, **kwargs)

    def forward(self, *_: Any, **__: Any) -> Any:
        FORM[0].refuse(type(self).__name__)


class _Sequence(HoldingModule):
    def __init__(self, *modules: Any) -> None:
        super().__init__()
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
        super().__init__()

    def forward(self, x: Any) -> Any:
        return x


def _tuple(value: Any, many: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,) * many


class Linear(HoldingModule):
    """`torch.nn.Linear`."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True, **_: Any) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = _parameter(FORM[0].drawn(out_features, in_features))
        self.bias = _parameter(FORM[0].drawn(out_features)) if bias else None


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
            super().__init__()
            if others and transposed:
                output_padding, groups, bias = (*others, *(output_padding, groups, bias)[len(others) :])[:3]
            elif others:
                dilation, groups, bias = (*others, *(dilation, groups, bias)[len(others) :])[:3]
            self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
            self.kernel_size, self.stride = _tuple(kernel_size, dims), _tuple(stride, dims)
            self.padding, self.dilation = _tuple(padding, dims), _tuple(dilation, dims)
            self.output_padding = _tuple(output_padding, dims)
            first, second = (in_channels, out_channels) if transposed else (out_channels, in_channels)
            self.weight = _parameter(FORM[0].drawn(first, second // groups, *self.kernel_size))
            self.bias = _parameter(FORM[0].drawn(out_channels)) if bias else None

    Convolution.__name__ = name
    return Convolution


class _Norm(HoldingModule):
    def __init__(self, shape: Any, eps: float = 1e-5, affine: bool = True, bias: bool = True, **_: Any) -> None:
        super().__init__()
        self.eps = eps
        self.normalized_shape = _tuple(shape, 1)
        self.num_features = math.prod(self.normalized_shape)
        self.weight = _parameter(FORM[0].ones(self.normalized_shape)) if affine else None
        self.bias = _parameter(FORM[0].zeros(self.normalized_shape)) if affine and bias else None


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
        self.running_mean = FORM[0].zeros(num_features)
        self.running_var = FORM[0].ones(num_features)


class GroupNorm(_Norm):
    """`torch.nn.GroupNorm`."""

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, **_: Any) -> None:
        super().__init__(num_channels, eps, affine)
        self.num_groups, self.num_channels = num_groups, num_channels


class Embedding(HoldingModule):
    """`torch.nn.Embedding`."""

    def __init__(self, num_embeddings: int, embedding_dim: int, **_: Any) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.weight = _parameter(FORM[0].drawn(num_embeddings, embedding_dim))


class _Plain(HoldingModule):
    """A module without parameters, which computes."""

    takes: ClassVar[Mapping[str, Any]] = {}
    """What it is made with, in order, and the defaults."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        for name, value in {**self.takes, **dict(zip(self.takes, args, strict=False)), **kwargs}.items():
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


_DIMS: Final = (1, 2, 3)
_TAKES: Final[dict[str, dict[str, Any]]] = {
    "Dropout": {"p": 0.5, "inplace": False},
    "ReLU": {"inplace": False},
    "LeakyReLU": {"negative_slope": 0.01, "inplace": False},
    "ELU": {"alpha": 1.0, "inplace": False},
    "GELU": {"approximate": "none"},
    "Softmax": {"dim": None},
    "LogSoftmax": {"dim": None},
    "Softplus": {"beta": 1.0, "threshold": 20.0},
    "Hardtanh": {"min_val": -1.0, "max_val": 1.0},
    "Flatten": {"start_dim": 1, "end_dim": -1},
}
"""Of the most frequent ones; what another has without a name is refused where it is asked for."""
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


def tensor_type(form: TensorForm) -> type:
    """`torch.Tensor`: what all tensors are, and what makes one of some sizes, mostly for a parameter."""

    class Tensors(type):
        def __instancecheck__(cls, one: Any) -> bool:
            return isinstance(one, form.tensor)

        def __call__(cls, *sizes: Any, **_: Any) -> Any:
            if not all(isinstance(one, int) for one in sizes):
                form.refuse("torch.Tensor")
            return form.drawn(*sizes)

        def __getattr__(cls, name: str) -> Any:
            return getattr(form.tensor, name)

    return Tensors("Tensor", (), {})


def _plain(name: str) -> type[_Plain]:
    return type(name, (_Plain,), {"takes": _TAKES.get(name, {})})


def layers_of(form: TensorForm) -> dict[str, Any]:
    """All names of `torch.nn`, but for its own modules. A process has one form."""
    FORM[:] = [form]
    found: dict[str, Any] = {f"Conv{n}d": _convolution(f"Conv{n}d", n, False) for n in _DIMS}
    found |= {f"ConvTranspose{n}d": _convolution(f"ConvTranspose{n}d", n, True) for n in _DIMS}
    found |= {f"BatchNorm{n}d": BatchNorm for n in _DIMS} | {name: _plain(name) for name in _PLAIN}
    found |= {"Module": HoldingModule, "Parameter": form.parameter, "ParameterList": ModuleList}
    return found | {
        one.__name__: one for one in (Sequential, ModuleList, Identity, Linear, LayerNorm, GroupNorm, Embedding)
    }
