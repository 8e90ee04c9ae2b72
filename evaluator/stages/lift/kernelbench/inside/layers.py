"""Modules of `torch.nn` that hold parameters, with tensors of the form that a recording has. They compute nothing."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from evaluator.stages.lift.kernelbench.inside.plain_layers import MADE_WITH, attributes_of


@dataclass(frozen=True)
class TensorForm:
    """What tensors are in a recording."""

    tensor: type
    parameter: Any
    """`torch.nn.Parameter`: a class."""
    drawn: Callable[..., Any]
    """`torch.randn`."""
    zeros: Callable[..., Any]
    ones: Callable[..., Any]
    refuse: Callable[[str], NoReturn]
    """For an operator, by its name."""


_OTHER_METHODS: Final = (
    *("cpu", "xpu", "to_empty", "register_module", "set_submodule", "get_extra_state", "set_extra_state"),
    *("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook"),
    *("_parameters", "_buffers", "_modules", "_apply", "_load_from_state_dict", "_save_to_state_dict", "_version"),
)
"""Of `torch.nn.Module`, which nothing stands for."""

FORM: list[TensorForm] = []
"""Of this process: one."""


def _parameter(data: Any) -> Any:
    return FORM[0].parameter(data)


class HoldingModule:
    """`torch.nn.Module`."""

    training = True

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _held(self) -> dict[str, Any]:
        """What was set on it, in order."""
        return {name: one for name, one in vars(self).items() if name != "training"}

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

    def named_buffers(self, *_: Any, **__: Any) -> Iterator[tuple[str, Any]]:
        """Tensors that are no parameters."""
        return ((name, one) for name, one in self.named_parameters() if not isinstance(one, FORM[0].parameter))

    def buffers(self, *_: Any, **__: Any) -> Iterator[Any]:
        return (one for _, one in self.named_buffers())

    def named_modules(self, memo: Any = None, prefix: str = "", *_: Any, **__: Any) -> Iterator[tuple[str, Any]]:
        """Itself and all below it, each with its path."""
        yield prefix, self
        for name, child in self.named_children():
            yield from child.named_modules(memo, f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator["HoldingModule"]:
        return (one for _, one in self.named_modules())

    def state_dict(self, *_: Any, **__: Any) -> dict[str, Any]:
        return dict(self.named_parameters())

    def load_state_dict(self, state: Mapping[str, Any], *_: Any, **__: Any) -> None:
        """What parameters hold is the problem's, whatever is loaded."""

    def get_submodule(self, target: str) -> Any:
        return dict(self.named_modules())[target]

    def get_parameter(self, target: str) -> Any:
        return dict(self.named_parameters())[target]

    get_buffer = get_parameter

    def apply(self, function: Callable[["HoldingModule"], Any]) -> "HoldingModule":
        return self

    def train(self, mode: bool = True) -> "HoldingModule":
        for one in self.modules():
            one.training = mode
        return self

    def eval(self) -> "HoldingModule":
        return self.train(False)

    def to(self, *_: Any, memory_format: Any = None, **__: Any) -> "HoldingModule":
        if "channels_last" in str(memory_format) and any(len(one.shape) > 3 for one in self.parameters()):
            FORM[0].refuse("Module.to with a memory format")
        return self

    def _itself(self, *_: Any, **__: Any) -> "HoldingModule":
        return self

    cuda = requires_grad_ = float = reset_parameters = share_memory = zero_grad = compile = type = _itself
    half = bfloat16 = double = _itself  # a parameter has the type of the input that it is

    def __getattr__(self, name: str) -> Any:
        if name in _OTHER_METHODS:
            FORM[0].refuse(f"Module.{name}")
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def forward(self, *_: Any, **__: Any) -> Any:
        FORM[0].refuse(type(self).__name__)


class _Sequence(HoldingModule):
    def __init__(self, *modules: Any) -> None:
        held = modules[0] if len(modules) == 1 and isinstance(modules[0], list | tuple) else modules
        for at, one in enumerate(held):
            setattr(self, str(at), one)

    def append(self, one: Any) -> Any:
        setattr(self, str(len(self)), one)
        return self

    def __len__(self) -> int:
        return len(self._held())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._held().values())

    def __getitem__(self, at: int) -> Any:
        return list(self._held().values())[at]


class Sequential(_Sequence):
    """`torch.nn.Sequential`."""

    def forward(self, x: Any) -> Any:
        for one in self:
            x = one(x)
        return x


class ModuleList(_Sequence):
    """`torch.nn.ModuleList`, and of parameters."""

    def extend(self, several: Any) -> Any:
        for one in several:
            self.append(one)
        return self


class ModuleDict(HoldingModule):
    """`torch.nn.ModuleDict`, and of parameters."""

    def __init__(self, held: Any = None) -> None:
        self.update(held or {})

    def update(self, held: Any) -> None:
        for name, one in held.items() if isinstance(held, Mapping | ModuleDict) else held:
            setattr(self, name, one)

    def __setitem__(self, name: str, one: Any) -> None:
        setattr(self, name, one)

    def __getitem__(self, name: str) -> Any:
        return self._held()[name]

    def __contains__(self, name: str) -> bool:
        return name in self._held()

    def __len__(self) -> int:
        return len(self._held())

    def __iter__(self) -> Iterator[str]:
        return iter(self._held())

    def keys(self) -> Any:
        return self._held().keys()

    def values(self) -> Any:
        return self._held().values()

    def items(self) -> Any:
        return self._held().items()


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


class RMSNorm(HoldingModule):
    """`torch.nn.RMSNorm`."""

    def __init__(
        self, normalized_shape: Any, eps: float | None = None, elementwise_affine: bool = True, **_: Any
    ) -> None:
        self.normalized_shape, self.eps = _tuple(normalized_shape, 1), eps
        self.weight = _parameter(FORM[0].ones(self.normalized_shape)) if elementwise_affine else None


class PReLU(HoldingModule):
    """`torch.nn.PReLU`."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, **_: Any) -> None:
        self.num_parameters, self.init = num_parameters, init
        self.weight = _parameter(FORM[0].ones(num_parameters))


class Embedding(HoldingModule):
    """`torch.nn.Embedding`."""

    def __init__(self, num_embeddings: int, embedding_dim: int, **_: Any) -> None:
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.weight = _parameter(FORM[0].drawn(num_embeddings, embedding_dim))


class _Plain(HoldingModule):
    """A module without parameters, which computes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        for name, value in attributes_of(type(self).__name__, args, kwargs).items():
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


def layers_of(form: TensorForm) -> dict[str, Any]:
    """All names of `torch.nn`, but for its own modules. A process has one form."""
    FORM[:] = [form]
    found: dict[str, Any] = {f"Conv{n}d": _convolution(f"Conv{n}d", n, False) for n in _DIMS}
    found |= {f"ConvTranspose{n}d": _convolution(f"ConvTranspose{n}d", n, True) for n in _DIMS}
    found |= {f"BatchNorm{n}d": BatchNorm for n in _DIMS} | {name: type(name, (_Plain,), {}) for name in MADE_WITH}
    found |= {"Module": HoldingModule, "Parameter": form.parameter, "ParameterList": ModuleList}
    found |= {"ParameterDict": ModuleDict, "Buffer": lambda data, *_, **__: data}
    named = (Sequential, ModuleList, ModuleDict, Identity, Linear, LayerNorm, GroupNorm, RMSNorm, PReLU, Embedding)
    return found | {one.__name__: one for one in named}
