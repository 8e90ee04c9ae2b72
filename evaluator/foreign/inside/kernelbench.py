"""KernelBench's form of a problem: `Model`, `get_inputs` and `get_init_inputs` in one Python file.

Source: https://github.com/ScalingIntelligence/KernelBench, README, "Task description".
"""

import ast
import inspect
import os
import random
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, MappingProxyType, ModuleType
from typing import Any, Final

import numpy as np
import torch
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from evaluator.foreign.inside import numbers_in_text
from evaluator.foreign.inside.numbers_in_text import FoldedNumbers, is_size, varies
from evaluator.foreign.inside.on_cpu import OWN_SEED, OnCpu, Remembered
from evaluator.foreign.inside.operators import own_seed, seed_torch
from evaluator.foreign.inside.refusals import FILE, RefusedError, refused_where_it_fails

MODULE: Final = "reference"
"""The module that a file becomes."""
_GUARDED: Final = (torch, torch.nn, torch.nn.functional, torch.Tensor, torch.nn.Module)
"""What a file that changes it would change the meaning of for us too."""
_REPLACED: Final = frozenset({"manual_seed", "__init__", "__setstate__"})
"""What PyTorch itself replaces of these when its compiler is imported."""
_BY_DEFAULT_TYPE: Final = "Storage"
"""An attribute of torch that `torch.set_default_dtype` sets."""
_MOST_NAMED: Final = 8


@dataclass(frozen=True)
class Arguments:
    """What `forward` is called with: its tensors by name, and all else in its place."""

    tensors: Mapping[str, torch.Tensor]
    leaves: Sequence[Any]
    """All leaves in order; a tensor's place holds its name."""
    structure: pytree.TreeSpec

    def with_tensors(self, tensors: Mapping[str, torch.Tensor]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Positional and keyword arguments that hold these tensors."""
        filled = [tensors[leaf.name] if isinstance(leaf, Place) else leaf for leaf in self.leaves]
        args, kwargs = pytree.tree_unflatten(filled, self.structure)
        return args, kwargs


@dataclass(frozen=True)
class Place:
    """Where a tensor stands among the arguments."""

    name: str


class ReferenceFile(ABC):
    """A file that was read and carried out once; what it defines is called as often as one likes."""

    output_names: Sequence[str] = ()
    """Where the file names its outputs."""
    sizes: Mapping[str, int]
    """Whole numbers that the file names, and a kernel may use."""
    assumed: Mapping[str, int] = MappingProxyType({})
    """Those of them that the file leaves open."""
    entry: Sequence[tuple[str, float | None, bool]] = ()
    """What the host function of a solution takes, in order, where the form says so: names; the value of a number,
    None for a tensor; and whether the tensor is read and written."""

    zeroed: frozenset[str] = frozenset()
    """Tensors among them that are only written, and hold zeros at first."""
    shapes: Mapping[str, str] = MappingProxyType({})
    """Arrays on the device among them that hold the extents of an input, int64, and that input."""

    def __init__(self, tree: ast.Module, constants: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        """`constants`: places of numbers in `tree`, some of which get other values, `sizes`. Raises RefusedError."""
        module = ModuleType(MODULE)
        sys.modules[MODULE] = module
        self._names = vars(module)
        self._remembered: dict[int, Remembered] = {}
        self._names[OWN_SEED] = own_seed
        self.constants = dict(constants)
        with refused_where_it_fails("carrying out the file"):
            for name, value in sizes.items():
                self.constants[name].value = value
            exec(compile(tree, FILE, "exec"), self._names)
        self.check_torch()

    def entry_by(self, read: Mapping[str, str], written: Mapping[str, str]) -> list[dict[str, Any]]:
        """`entry` with what its tensors are called outside: those that are `read`, and those that are `written`."""
        found: list[dict[str, Any]] = []
        for name, value, changed in self.entry:
            if value is not None:
                found.append({"name": name, "value": value})
            elif changed:
                found.append({"name": name, "tensor": written.get(f"{name}_out", ""), "initial": read.get(name, "")})
            else:
                tensor = read.get(name) or written.get(name, "")
                zeroed = bool(tensor) and name in self.zeroed and name not in read
                extents = "" if tensor else read.get(self.shapes.get(name, ""), "")
                found.append({"name": name, "tensor": tensor, "zeroed": zeroed, "shape_of": extents})
        return found

    @staticmethod
    @abstractmethod
    def parsed(text: str) -> tuple[ast.Module, dict[str, Any]]:
        """The file as it is carried out, and the numbers in it that other sizes have. Raises SyntaxError."""

    @abstractmethod
    def model(self, seed: int) -> torch.nn.Module:
        """A new module, made under this seed. Raises RefusedError."""

    @abstractmethod
    def arguments(self, model: torch.nn.Module, seed: int) -> Arguments:
        """What the module is called with, made under this seed. Raises RefusedError."""

    def made(self, seed: int) -> tuple[torch.nn.Module, Arguments]:
        """A new module whose parameters all have shapes, and what it is called with. Raises RefusedError."""
        model = self.model(seed)
        arguments = self.arguments(model, seed)
        initialize(model, arguments)
        return model, arguments

    def forget_made(self, model: torch.nn.Module) -> None:
        """What the file has kept of calls before: tables that were made in other types, or under other noise.

        What there is the first time stays.
        """
        if id(model) not in self._remembered:
            self._remembered[id(model)] = Remembered(self._names, model)
        self._remembered[id(model)].restore()

    def check_torch(self) -> None:
        """Raises RefusedError where the file has changed torch."""
        for (owner, name), value in _BEFORE.items():
            now = vars(owner).get(name)
            if (
                now is not value
                and name != _BY_DEFAULT_TYPE
                and not (name in _REPLACED and _is_written_in_torch(now))
            ):
                raise RefusedError(f"it changes {getattr(owner, '__name__', 'torch')}.{name}")


class KernelBenchFile(ReferenceFile):
    """A file with `Model`, `get_inputs` and `get_init_inputs`."""

    def __init__(self, text: str, sizes: Mapping[str, int] = MappingProxyType({})) -> None:
        """`sizes`: values in the place of those that the file gives these of its `constants`. Raises RefusedError."""
        with refused_where_it_fails("carrying out the file"):
            tree, constants = self.parsed(text)
        super().__init__(tree, constants, sizes)
        lines = _definitions(tree)
        self.sizes = _sizes(tree, self._names, constants)
        self._model = self._names.get("Model")
        if not (inspect.isclass(self._model) and issubclass(self._model, torch.nn.Module)):
            defined = ", ".join(f"`{name}` in line {line}" for name, line in list(lines.items())[:_MOST_NAMED])
            what = f"has no class `Model`, and defines {defined or 'nothing'}"
            what = what if self._model is None else "has a `Model` that is no torch.nn.Module"
            raise RefusedError(f"it {what}", lines.get("Model"))
        for name in ("get_inputs", "get_init_inputs"):
            if not callable(self._names.get(name)) and (name == "get_inputs" or name in self._names):
                raise RefusedError(f"it has no function `{name}`", lines.get(name))

    @staticmethod
    def parsed(text: str) -> tuple[ast.Module, dict[str, Any]]:
        """The numbers are those that `numbers_in_text` finds. Raises SyntaxError.

        Where tensors are made on a GPU the file is carried out as it stands.
        """
        on_gpu = torch.empty(0).device.type == "cuda"
        return numbers_in_text.parsed(text, FoldedNumbers if on_gpu else OnCpu)

    def model(self, seed: int) -> torch.nn.Module:
        """A new `Model`, made under this seed, in the mode in which the file leaves it. Raises RefusedError."""
        seeded(seed)
        with refused_where_it_fails("making the Model"):
            given = self._names["get_init_inputs"]() if "get_init_inputs" in self._names else []
            args, kwargs = _both_kinds(given)
            made = self._names["Model"](*args, **kwargs)
        assert isinstance(made, torch.nn.Module)
        _register_tensors(made)
        return made

    def arguments(self, model: torch.nn.Module, seed: int) -> Arguments:
        """What `get_inputs` gives under this seed, by the names of `forward`'s arguments. Raises RefusedError."""
        seeded(seed)
        with refused_where_it_fails("get_inputs"):
            args, kwargs = _both_kinds(self._names["get_inputs"]())
            signature = inspect.signature(model.forward)
            signature.bind(*args, **kwargs)
        leaves, structure = pytree.tree_flatten((list(args), dict(kwargs)))
        held = {name for name, _ in (*model.named_parameters(), *model.named_buffers())}  # some have no shape yet
        names = [f"{name}_input" if name in held else name for name in _leaf_names(signature, args, kwargs)]
        tensors: dict[str, torch.Tensor] = {}
        placed: list[Any] = []
        for name, leaf in zip(names, leaves, strict=True):
            if isinstance(leaf, torch.Tensor):
                tensors[name] = leaf.detach()
                placed.append(Place(name))
            else:
                placed.append(leaf)
        return Arguments(tensors, placed, structure)


def state_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Its parameters and buffers by name."""
    return {name: one.detach() for name, one in (*model.named_parameters(), *model.named_buffers())}


def initialize(model: torch.nn.Module, arguments: Arguments) -> None:
    """Give modules such as `LazyLinear` the parameters whose shapes they learn in their first call."""

    def any_lazy() -> bool:
        return any(map(is_lazy, (*model.parameters(), *model.buffers())))

    if any_lazy():
        with refused_where_it_fails("forward"), torch.no_grad():
            args, kwargs = arguments.with_tensors({name: one.clone() for name, one in arguments.tensors.items()})
            model(*args, **kwargs)
        if any_lazy():
            raise RefusedError("it has parameters that have no shape, even after a call of forward")


def call(
    model: torch.nn.Module,
    state: Mapping[str, torch.Tensor],
    arguments: Arguments,
    tensors: Mapping[str, torch.Tensor],
) -> list[Any]:
    """The leaves that `forward` returns. Raises what it raises."""
    args, kwargs = arguments.with_tensors(tensors)
    with torch.no_grad():
        returned = torch.func.functional_call(model, dict(state), tuple(args), dict(kwargs))
    return [leaf for leaf in pytree.tree_leaves(returned) if leaf is not None]


def _register_tensors(model: torch.nn.Module) -> None:
    """Make buffers of tensors that a module keeps as plain attributes, such as the state of an RNN.

    A kernel must be given them, and what one call of `forward` leaves in them is not to be there in the next.
    """
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, torch.Tensor):
                delattr(module, name)
                module.register_buffer(name, value.detach(), persistent=False)


def _both_kinds(given: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Positional and keyword arguments: a list, a dict, or KernelBook's `[[...], {...}]`."""
    if isinstance(given, Mapping):
        return (), given
    if isinstance(given, Iterator):  # of a function that yields them
        return list(given), {}
    if isinstance(given, torch.Tensor) or not isinstance(given, Sequence):
        return (given,), {}
    if len(given) == 2 and isinstance(given[0], list | tuple) and isinstance(given[1], dict):
        return given[0], given[1]
    return given, {}


def _leaf_names(signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
    """A name for each leaf of the arguments: the argument's, with numbers where it holds several."""
    names: list[str] = []
    parameters = list(signature.parameters.values())
    for at, value in enumerate(args):
        parameter = parameters[min(at, len(parameters) - 1)]
        several = parameter.kind is inspect.Parameter.VAR_POSITIONAL
        names += _numbered(f"{parameter.name}_{at}" if several else parameter.name, value)
    for key, value in kwargs.items():
        names += _numbered(key, value)
    return names


def _numbered(name: str, value: Any) -> list[str]:
    count = len(pytree.tree_leaves(value))
    whole = pytree.tree_structure(value).is_leaf()
    return [name] if whole else [f"{name}_{at}" for at in range(count)]


def _sizes(tree: ast.Module, names: Mapping[str, Any], constants: Mapping[str, Any]) -> dict[str, int]:
    """Names that the file gives one whole number, at its top, in order, and then those in its tuples."""
    stored = dict.fromkeys(
        one.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for one in ast.walk(target)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store) and one.id.isascii()
    )
    found = {name: names[name] for name in stored if is_size(names.get(name))}
    return found | {
        name: place.value
        for name, place in constants.items()
        if name not in names and (varies(place) or not place.whole)
    }


def _definitions(tree: ast.Module) -> dict[str, int]:
    """Lines of what the file defines at its top, by name."""
    defined = (ast.FunctionDef, ast.ClassDef)
    return {node.name: node.lineno for node in tree.body if isinstance(node, defined)}


def _is_written_in_torch(function: Any) -> bool:
    """By the file of its code: what it says of its module anyone can set."""
    code = getattr(function, "__code__", None)
    return isinstance(code, CodeType) and code.co_filename.startswith(os.path.dirname(torch.__file__) + os.sep)


def _attributes() -> dict[tuple[Any, str], Any]:
    return {(owner, name): value for owner in _GUARDED for name, value in vars(owner).items() if callable(value)}


_BEFORE: Final = _attributes()
"""Before this process carried out any file: it does so several times, and what the first changes stays changed."""


def seeded(seed: int) -> None:
    """Have everything that draws at random begin from `seed`."""
    seed_torch(seed)
    random.seed(seed)
    np.random.seed(seed % (1 << 32))
