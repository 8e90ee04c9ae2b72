"""The module `torch` that a solution imports here: modules with parameters, `load_inline`, and names that refuse."""

import sys
from types import ModuleType
from typing import Any, Final

from evaluator.backends.model_binding import BY_NAME_ALONE
from evaluator.stages.lift.kernelbench.inside.layers import ForwardFunction, TensorForm, layers_of, tensor_type
from evaluator.stages.lift.kernelbench.inside.memory_formats import CHANNELS_LAST, CONTIGUOUS
from evaluator.stages.lift.kernelbench.inside.tables import tables_of
from evaluator.stages.lift.kernelbench.inside.tensors import (
    CURRENT,
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

    def __instancecheck__(self, one: Any) -> bool:
        """Nothing here is of a class that is not here."""
        return False

    def __setattr__(self, name: str, value: Any) -> None:
        """Settings such as `torch.backends.cuda.matmul.allow_tf32` change nothing here."""


VERSION: Final = "2.9.0"
"""What `torch.__version__` says: as `triton.inside.stand_in_torch` does."""


class HeldParameter(PassedTensor):
    """A tensor that a module registers: an input of the problem, where it has one like it."""

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        if not isinstance(data, PassedTensor):
            raise UnrecordableError("other", "makes a parameter of something that is no tensor")
        made = super().__new__(cls)
        made.__dict__.update(data.__dict__)
        made.__dict__.pop(BY_NAME_ALONE, None)
        return made

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        """It has all of `data`."""


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
    cpp, cuda = (
        [given] if given and isinstance(given, str) else list(given or ()) for given in (cpp_sources, cuda_sources)
    )
    flags = [str(one) for one in extra_cuda_cflags or ()]
    MODULES.append({"name": str(name), "sources": cpp + cuda, "cpp": len(cpp), "functions": named, "flags": flags})
    return CompiledModule(named)


def _load(*_: Any, **__: Any) -> CompiledModule:
    """`torch.utils.cpp_extension.load`, of files."""
    raise UnrecordableError("other", "compiles other files (torch.utils.cpp_extension.load): it is one file")


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


def install_torch() -> None:
    """Have `import torch` give what is here."""
    sys.modules["triton"] = None  # type: ignore[assignment]  # its kernels are none that are compiled here
    torch = _module("torch", DTYPES)
    aliases = {"float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32"}
    vars(torch).update({name: DTYPES[one] for name, one in aliases.items()})
    vars(torch).update(
        __version__=VERSION,
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
        contiguous_format=CONTIGUOUS,
        preserve_format="preserve",
        **{name: name for name in CHANNELS_LAST},
    )
    vars(torch).update(tables_of(drawn_tensor, operator_called, lambda: bool(CURRENT)))
    form = TensorForm(PassedTensor, HeldParameter, drawn_tensor, allocated(0.0), allocated(1.0), operator_called)
    vars(torch)["Tensor"] = tensor_type(form)
    nn = _module("torch.nn", layers_of(form))
    functional = _module("torch.nn.functional", {})
    init = _module("torch.nn.init", {})
    init.__getattr__ = lambda name: lambda tensor, *_, **__: tensor  # type: ignore[method-assign]
    compiling = {"load_inline": load_inline, "load": _load, "CUDA_HOME": "/usr/local/cuda"}
    cpp_extension = _module("torch.utils.cpp_extension", compiling)
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
