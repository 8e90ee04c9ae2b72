"""The module `torch` that a solution imports here: modules with parameters, `load_inline`, and names that refuse."""

import math
import sys
from collections.abc import Mapping
from numbers import Integral, Real
from types import ModuleType, SimpleNamespace
from typing import Any, Final

from evaluator.backends.model_binding import BY_NAME_ALONE
from evaluator.stages.lift.kernelbench.inside.allocation import (
    allocated,
    allocated_like,
    drawn_tensor,
    full,
    full_like,
)
from evaluator.stages.lift.kernelbench.inside.layers import ForwardFunction, TensorForm, layers_of
from evaluator.stages.lift.kernelbench.inside.layout import CHANNELS_LAST, CHANNELS_LAST_3D, CONTIGUOUS, PRESERVE
from evaluator.stages.lift.kernelbench.inside.names import (
    ADVICE,
    COMPILED_BY,
    INITIALISING,
    VERSION,
    ImportedByName,
    carried_out_as,
    class_named,
    custom_forward,
    facts_of_the_device,
)
from evaluator.stages.lift.kernelbench.inside.script import (
    CURRENT,
    DTYPES,
    ElementType,
    NamedDevice,
    UnrecordableError,
    operator_called,
    script,
)
from evaluator.stages.lift.kernelbench.inside.tables import tables_of
from evaluator.stages.lift.kernelbench.inside.tensors import OF_PARAMETER, PassedTensor


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

    def __instancecheck__(self, one: Any) -> bool:
        """Nothing is one of a class that is not here, but that tensors have classes of several names."""
        if self._name.endswith("Tensor") and isinstance(one, PassedTensor):
            operator_called(f"isinstance with {self._name}")
        return False

    def __mro_entries__(self, bases: Any) -> Any:
        operator_called(f"of a class that is made of {self._name}")

    def __or__(self, other: Any) -> "Refusing":
        """As in the annotation `torch.LongTensor | None`."""
        return self

    __ror__ = __or__

    def _used(self, *_: Any) -> Any:
        operator_called(str(self.__dict__["_name"]))

    __lt__ = __le__ = __gt__ = __ge__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _used
    __truediv__ = __rtruediv__ = __neg__ = __int__ = __float__ = __index__ = __len__ = __iter__ = _used
    __getitem__ = __setitem__ = __contains__ = __enter__ = _used

    def __exit__(self, *_: Any) -> None:
        """It was never entered."""


class HeldParameter(PassedTensor):
    """A tensor that a module registers: an input of the problem, where it has one like it."""

    is_parameter = True

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        if not isinstance(data, PassedTensor):
            raise UnrecordableError("other", "makes a parameter of something that is no tensor")
        made = super().__new__(cls)
        made.__dict__.update(data.__dict__)
        for flag in (BY_NAME_ALONE, OF_PARAMETER):
            made.__dict__.pop(flag, None)
        return made

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        """It has all of `data`."""


# --- functions that are compiled ------------------------------------------------------------------------------

MODULES: list[dict[str, Any]] = []
"""What each `load_inline` was given, each once."""


class CompiledModule:
    """The module that `load_inline` returns: each of its functions is a line of the script."""

    def __init__(self, functions: list[str] | None, number: int) -> None:
        """`number`: of the module among those that are compiled."""
        self._functions, self._number = functions, number

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._functions is not None and name not in self._functions:
            raise AttributeError(f"module has no attribute '{name}'; `functions` names {', '.join(self._functions)}")
        others = [one["functions"] or () for one in MODULES[: self._number]]
        called = f"{name}.{self._number}" if any(name in one for one in others) else name
        return lambda *args, **kwargs: _called(called, args, kwargs)


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
    if isinstance(value, Real) and not isinstance(value, int | float):  # NumPy's numbers
        value = int(value) if isinstance(value, Integral) else float(value)
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
    cpp, cuda = (
        [given] if given and isinstance(given, str) else list(given or ()) for given in (cpp_sources, cuda_sources)
    )
    flags = [str(one) for one in extra_cuda_cflags or ()]
    made = {"sources": cpp + cuda, "cpp": len(cpp), "functions": named, "flags": flags}
    # Some compile when a model is made: the same for each of them, though under another name.
    number = next((at for at, one in enumerate(MODULES) if {**one, **made} == one), len(MODULES))
    if number == len(MODULES):
        MODULES.append({"name": str(name), **made})
    return CompiledModule(named, number)


# --- the module -----------------------------------------------------------------------------------------------


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


def install_torch(device: Mapping[str, Any]) -> None:
    """Have `import torch` give what is here. `device`: of the request."""
    sys.modules["triton"] = None  # type: ignore[assignment]  # its kernels are none that are compiled here
    torch = _module("torch", DTYPES)
    aliases = {"float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32"}
    vars(torch).update({name: DTYPES[one] for name, one in aliases.items()})
    vars(torch).update(
        Tensor=class_named("Tensor", lambda one: isinstance(one, PassedTensor), _of_sizes),
        Size=tuple,
        dtype=ElementType,
        device=NamedDevice,
        empty=allocated(None),
        zeros=allocated(0.0),
        ones=allocated(1.0),
        full=full,
        empty_like=allocated_like(None),
        zeros_like=allocated_like(0.0),
        ones_like=allocated_like(1.0),
        full_like=full_like,
        rand=drawn_tensor,
        randn=drawn_tensor,
        no_grad=_guard,
        inference_mode=_guard,
        enable_grad=_guard,
        set_grad_enabled=_guard,
        autocast=_guard,
        compile=carried_out_as,
        is_autocast_enabled=lambda *_: False,
        manual_seed=_quiet,
        set_default_dtype=_quiet,
        set_float32_matmul_precision=_quiet,
        is_tensor=lambda one: isinstance(one, PassedTensor),
        is_grad_enabled=lambda: True,
        numel=lambda one: one.numel(),
        contiguous_format=CONTIGUOUS,
        preserve_format=PRESERVE,
        channels_last=CHANNELS_LAST,
        channels_last_3d=CHANNELS_LAST_3D,
        inf=math.inf,
        nan=math.nan,
        pi=math.pi,
        e=math.e,
        __version__=VERSION,
        version=SimpleNamespace(cuda=COMPILED_BY, hip=None),
    )
    vars(torch).update({name: _of_its_tensor(name) for name in _VIEWS})
    vars(torch).update(tables_of(drawn_tensor, operator_called, lambda: bool(CURRENT)))
    form = TensorForm(PassedTensor, HeldParameter, drawn_tensor, allocated(0.0), allocated(1.0), operator_called)
    nn = _module("torch.nn", layers_of(form))
    functional = _module("torch.nn.functional", {})
    init = _module("torch.nn.init", INITIALISING)
    init.__getattr__ = _initialiser  # type: ignore[method-assign]
    cpp_extension = _module("torch.utils.cpp_extension", {"load_inline": load_inline, "CUDA_HOME": "/usr/local/cuda"})
    utils = _module("torch.utils", {"cpp_extension": cpp_extension})
    amp = _module("torch.amp", {"autocast": _guard, "custom_fwd": custom_forward, "custom_bwd": custom_forward})
    settings = ("is_available", "synchronize", "current_device", "empty_cache", "device", "device_count", "amp")
    on_device = (lambda: True, _quiet, lambda: 0, _quiet, _guard, lambda: 1, _module("torch.cuda.amp", vars(amp)))
    nvtx = _module("torch.cuda.nvtx", {"range_push": _quiet, "range_pop": _quiet, "range": _guard, "mark": _quiet})
    cuda = _module("torch.cuda", {**dict(zip(settings, on_device, strict=True)), **facts_of_the_device(device)})
    stream = SimpleNamespace(cuda_stream=0, stream_id=0, device=NamedDevice("cuda:0"), synchronize=_quiet)
    vars(cuda).update(nvtx=nvtx, current_stream=lambda device=None: stream, default_stream=lambda device=None: stream)
    autograd = _module("torch.autograd", {"Function": ForwardFunction})
    vars(nn).update(
        functional=functional, init=init, parameter=_module("torch.nn.parameter", {"Parameter": HeldParameter})
    )
    vars(torch).update(nn=nn, utils=utils, cuda=cuda, autograd=autograd, amp=amp)
    for name, held in ADVICE.items():
        vars(torch)[name] = _module(f"torch.{name}", held)
    sys.meta_path.append(ImportedByName(lambda name: _module(name, {})))


_VIEWS: Final = (
    *("reshape", "flatten", "transpose", "swapaxes", "permute", "squeeze", "unsqueeze", "narrow", "select", "split"),
    *("chunk", "unbind", "t", "clone"),
)
"""Functions of `torch` that are methods of a tensor too, and give views or a copy."""


def _of_its_tensor(name: str) -> Any:
    def called(one: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(one, PassedTensor):
            operator_called(f"torch.{name}")
        return getattr(one, name)(*args, **kwargs)

    return called


def _of_sizes(*sizes: Any, **_: Any) -> PassedTensor:
    """`torch.Tensor(rows, cols)`."""
    if not all(isinstance(one, int) for one in sizes):
        operator_called("torch.Tensor")
    return allocated(None)(*sizes)  # type: ignore[no-any-return]


def _initialiser(name: str) -> Any:
    """Of `torch.nn.init`: what it fills a parameter with is nothing that is judged."""
    if name.startswith("__"):
        raise AttributeError(name)

    def called(tensor: Any, *values: Any, **_: Any) -> Any:
        known = {"zeros_": 0.0, "ones_": 1.0, "constant_": values[0] if values else None}
        return tensor.fill_(known.get(name)) if isinstance(tensor, PassedTensor) else tensor

    return called


def _module(name: str, held: Any) -> ModuleType:
    made = _Named(name)
    made.__path__ = []
    vars(made).update(held)
    sys.modules[name] = made
    return made
