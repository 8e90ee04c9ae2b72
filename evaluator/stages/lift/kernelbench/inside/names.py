"""Names of PyTorch that a solution uses and that compute nothing, for each form of recording: decorators, classes."""

import importlib.abc
import importlib.machinery
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any, Final

VERSION: Final = "2.9.0"
"""Of PyTorch, as recorded Python sees it."""
COMPILED_BY: Final = "13.0"
"""`torch.version.cuda`."""


TYPED: Final = (
    "FloatTensor",
    "HalfTensor",
    "BFloat16Tensor",
    "DoubleTensor",
    "LongTensor",
    "IntTensor",
    "BoolTensor",
)
"""Classes that annotations name."""


def class_named(name: str, is_one: Callable[[Any], bool], make: Callable[..., Any]) -> type:
    """A class of which everything is that `is_one` says so of, and that is called as `make` is."""
    form = type(
        f"_{name}",
        (type,),
        {"__instancecheck__": lambda _, one: is_one(one), "__call__": lambda _, *a, **k: make(*a, **k)},
    )
    made: type = form(name, (), {})
    return made


def carried_out_as(*given: Any, **_: Any) -> Any:
    """`torch.compile`, `torch.compiler.disable` and such: how what is given is carried out, and not what it does."""
    return given[0] if given and callable(given[0]) else lambda function: function


ADVICE: Final = {
    "compiler": {"disable": carried_out_as, "allow_in_graph": carried_out_as, "is_compiling": lambda: False},
    "_dynamo": {"disable": carried_out_as, "allow_in_graph": carried_out_as},
    "jit": {
        "ignore": carried_out_as,
        "unused": carried_out_as,
        "export": carried_out_as,
        "is_scripting": lambda: False,
        "is_tracing": lambda: False,
    },
}
"""Functions of PyTorch's modules of these names."""


def custom_forward(function: Any = None, *, cast_inputs: Any = None, **_: Any) -> Any:
    """`torch.amp.custom_fwd`. Raises TypeError where it would convert what the function is given."""
    if cast_inputs is not None:
        raise TypeError("cast_inputs")
    return carried_out_as(function) if function is not None else carried_out_as


class ImportedByName(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `torch.anything`, as a module that has nothing but what `torch` has under that name.

    But for PyTorch's own parts (`torch._inductor`), of which kernels call functions: who imports one needs it.
    """

    def __init__(self, make: Callable[[str], ModuleType]) -> None:
        self._make = make

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        parts = name.split(".")
        if parts[0] != "torch" or (any(part.startswith("_") for part in parts) and parts[1] not in ADVICE):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        parent, _, last = spec.name.rpartition(".")
        held = vars(sys.modules[parent]).get(last)
        return held if isinstance(held, ModuleType) else self._make(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to carry out."""


def facts_of_the_device(device: Mapping[str, Any]) -> dict[str, Any]:
    """Of `torch.cuda`, what says which GPU there is. `device`: as `target_device.for_python` has it."""
    facts, capability = device["device"], divmod(device["capability"], 10)
    properties = SimpleNamespace(
        name=device["device_name"],
        major=capability[0],
        minor=capability[1],
        warp_size=32,
        multi_processor_count=facts["multiprocessor_count"],
        total_memory=facts["total_memory"],
        L2_cache_size=facts["l2_cache_size"],
        regs_per_multiprocessor=facts["max_num_regs"],
        max_threads_per_multi_processor=facts["max_threads"],
        shared_memory_per_block_optin=facts["max_shared_mem"],
    )
    return {
        "get_device_capability": lambda device=None: capability,
        "get_device_name": lambda device=None: properties.name,
        "get_device_properties": lambda device=None: properties,
    }


# --- what initialises parameters, whose contents are the problem's -----------------------------------------


def _fans(tensor: Any, *_: Any) -> tuple[int, int]:
    shape = tuple(tensor.shape)
    if len(shape) < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


def _gain(nonlinearity: str, param: float | None = None) -> float:
    gains = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 0.75}
    gains["leaky_relu"] = math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    return gains.get(nonlinearity, 1.0)


INITIALISING: Final[Mapping[str, Any]] = {
    "calculate_gain": _gain,
    "_calculate_fan_in_and_fan_out": _fans,
    "_calculate_correct_fan": lambda tensor, mode: _fans(tensor)[mode == "fan_out"],
}
"""Of `torch.nn.init`, beside what fills a tensor."""
FILLING: Final = ("normal_", "uniform_", "zero_", "fill_", "trunc_normal_", "exponential_", "log_normal_", "random_")
"""Methods that give a tensor other contents, whatever it has held."""


def broadcast(one: Sequence[int], other: Sequence[int] = ()) -> tuple[int, ...]:
    """The shape of an operator's result. Raises ValueError where there is none."""
    made: list[int] = []
    for at in range(1, max(len(one), len(other)) + 1):
        pair = {one[-at] if at <= len(one) else 1, other[-at] if at <= len(other) else 1} - {1}
        if len(pair) > 1:
            raise ValueError(f"shapes {tuple(one)} and {tuple(other)} do not broadcast")
        made.append(pair.pop() if pair else 1)
    return tuple(reversed(made))
