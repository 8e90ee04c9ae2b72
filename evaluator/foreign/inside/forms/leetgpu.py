"""LeetGPU's form of a problem: a class `Challenge` with `reference_impl`, in a file `challenge.py`.

Source: https://github.com/AlphaGPU/leetgpu-challenges, challenges/core/challenge_base.py and the challenges there.
`reference_impl` writes into the tensors that `get_solve_signature` calls `out`; `generate_performance_test` gives all
arguments by name, for the size that is timed there.
"""

import ast
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Any, Final

import torch
from torch.utils import _pytree as pytree

from evaluator.foreign.inside.kernelbench import Arguments, Place, ReferenceFile, seeded
from evaluator.foreign.inside.numbers_in_text import (
    assigned,
    constants_in,
    given_numbers,
    is_size,
    keyed_numbers,
    numbers_together,
    numbers_within,
    shown,
)
from evaluator.foreign.inside.on_cpu import parsed_for_cpu
from evaluator.foreign.inside.refusals import FILE, RefusedError, refused_where_it_fails

_TIMED: Final = "generate_performance_test"
_WAYS: Final = ("in", "out", "inout")
_ZEROS: Final = frozenset({"zeros", "zeros_like"})


class _Challenge:
    """What a challenge extends: it keeps what it is given, and makes tensors on the CPU."""

    device = "cpu"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        vars(self).update({name: value for name, value in kwargs.items() if name != "device"})


def _makers() -> dict[str, Any]:
    """What a case may say in the place of a tensor: how it is made. `OutTensor` is only written."""

    def kind(dtype: str) -> torch.dtype:
        found = getattr(torch, str(dtype), None)
        if not isinstance(found, torch.dtype):
            raise ValueError(f"{dtype} is no type of a tensor")
        return found

    return {
        "RandTensor": lambda shape, low=0.0, high=1.0, dtype="float32": torch.empty(
            tuple(shape), dtype=kind(dtype)
        ).uniform_(low, high),
        "RandnTensor": lambda shape, mean=0.0, std=1.0, dtype="float32": (
            torch.randn(tuple(shape), dtype=kind(dtype)) * std + mean
        ),
        "RandIntTensor": lambda shape, low, high, dtype="int32": torch.randint(
            low, high, tuple(shape), dtype=kind(dtype)
        ),
        "FullTensor": lambda shape, value=0.0, dtype="float32": torch.full(tuple(shape), value, dtype=kind(dtype)),
        "OutTensor": lambda shape, dtype="float32": torch.empty(tuple(shape), dtype=kind(dtype)),
    }


class LeetGpuFile(ReferenceFile):
    """A challenge, at the size of its performance test or at others."""

    def __init__(self, text: str, sizes: Mapping[str, int] = MappingProxyType({})) -> None:
        """`sizes`: values in the place of those of its `constants`. Raises RefusedError."""
        core, base = ModuleType("core"), ModuleType("core.challenge_base")
        vars(base).update({"ChallengeBase": _Challenge, **_makers()})
        core.challenge_base = base  # type: ignore[attr-defined]
        sys.modules.update({"core": core, "core.challenge_base": base})
        with refused_where_it_fails("carrying out the file"):
            tree, constants = self.parsed(text)
        super().__init__(tree, constants, sizes)
        self._zeros = zeros_in(tree)
        challenge = self._names.get("Challenge")
        if not (isinstance(challenge, type) and issubclass(challenge, _Challenge)):
            raise RefusedError("it has no class `Challenge` that extends ChallengeBase")
        for name in ("reference_impl", "get_solve_signature", _TIMED):
            if not callable(getattr(challenge, name, None)):
                raise RefusedError(f"its Challenge has no method `{name}`")

    @staticmethod
    def parsed(text: str) -> tuple[ast.Module, dict[str, Any]]:
        """The numbers are those at the file's top and in the performance test. Raises SyntaxError."""
        tree = parsed_for_cpu(text, FILE)
        return tree, _constants(tree)

    def model(self, seed: int) -> torch.nn.Module:
        """The challenge as a module of the tensors that it reads. Raises RefusedError."""
        seeded(seed)
        with refused_where_it_fails(_TIMED):
            challenge = self._names["Challenge"]()
            directions = {name: str(kind[1]) for name, kind in challenge.get_solve_signature().items()}
        for name, way in directions.items():
            if way not in _WAYS:
                raise RefusedError(f"'{name}' is '{way}': a tensor is read (in), written (out) or both (inout)")
        with refused_where_it_fails(_TIMED):
            case = dict(getattr(challenge, _TIMED)())
        model = _Solved(challenge, case, directions)
        self.output_names = [f"{name}_out" if name in model.read else name for name in model.written]
        self.sizes = {name: value for name, value in case.items() if is_size(value)}
        self.entry = [
            (name, None if isinstance(case[name], torch.Tensor) else case[name], way == "inout")
            for name, way in directions.items()
            if isinstance(case.get(name), torch.Tensor | int | float)
        ]
        self.zeroed = frozenset(name for name, way in directions.items() if way == "out" and name in self._zeros)
        # What the test derives from a number of the same name is another size.
        self.constants = {
            name: place for name, place in self.constants.items() if self.sizes.get(name, place.value) == place.value
        }
        self.sizes |= shown(self.constants)
        return model

    def arguments(self, model: torch.nn.Module, seed: int) -> Arguments:
        """Those of the performance test, as `model` was made with. Raises RefusedError."""
        assert isinstance(model, _Solved)
        tensors = {name: model.case[name].detach() for name in model.read}
        places: Sequence[Any] = [Place(name) for name in model.read]
        return Arguments(tensors, places, pytree.tree_flatten((list(model.read), {}))[1])


class _Solved(torch.nn.Module):
    """What a solution computes."""

    def __init__(self, challenge: Any, case: Mapping[str, Any], directions: Mapping[str, str]) -> None:
        super().__init__()
        self.challenge, self.case = challenge, case
        tensors = [name for name, value in case.items() if isinstance(value, torch.Tensor)]
        self.written = [name for name, way in directions.items() if way != "in" and name in tensors]
        self.read = [name for name in tensors if directions.get(name) != "out"]
        if not self.written:
            raise RefusedError("its signature has no tensor that is written (out)")

    def forward(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The tensors that are written, made anew: as wide as what computes here. What is changed in place is
        changed in a copy of what was given.
        """
        tensors = {
            name: value.clone() if name in self.written else value
            for name, value in zip(self.read, given, strict=True)
        }
        for name in self.written:
            if name not in tensors:
                tensors[name] = torch.zeros(self.case[name].shape, dtype=self.case[name].dtype)
        rest = {name: value for name, value in self.case.items() if not isinstance(value, torch.Tensor)}
        self.challenge.reference_impl(**tensors, **rest)
        return tuple(tensors[name] for name in self.written)


def zeros_in(tree: ast.Module) -> frozenset[str]:
    """Tensors that the performance test makes with `torch.zeros`, and in no other way."""
    made: dict[str, set[str]] = {}
    methods = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == _TIMED]
    for method in methods:
        given = dict(assigned(method.body))
        for one in ast.walk(method):
            for key, value in zip(one.keys, one.values, strict=True) if isinstance(one, ast.Dict) else ():
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    held = given.get(value.id, value) if isinstance(value, ast.Name) else value
                    made.setdefault(key.value, set()).add(_maker(held))
    return frozenset(name for name, makers in made.items() if makers <= _ZEROS)


def _maker(value: ast.expr) -> str:
    """The attribute of torch that is called for it; empty where it is another expression."""
    called = value.func if isinstance(value, ast.Call) else None
    named = isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "torch"
    return called.attr if named and isinstance(called, ast.Attribute) else ""


def _constants(tree: ast.Module) -> dict[str, Any]:
    """What the performance test assigns once, as `N = 16` or `M, N = 16, 32`, gives a function of the file, or
    returns under a name; what the file's top assigns; and the test's numbers without a name.
    """
    methods = [
        node
        for top in tree.body
        if isinstance(top, ast.ClassDef) and top.name == "Challenge"
        for node in top.body
        if isinstance(node, ast.FunctionDef) and node.name == _TIMED
    ]
    if not methods:
        return {}
    test = methods[0]
    stored = Counter(one.id for one in ast.walk(test) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
    named = {
        name: place
        for name, place in assigned(test.body)
        if stored[name] == 1 and isinstance(place, ast.Constant) and is_size(place.value)
    }
    for name, place in given_numbers(test, tree):
        if name not in stored:
            named.setdefault(name, place)
    named |= {name: place for name, place in constants_in(tree).items() if name not in named}
    taken = {id(place) for place in named.values()}
    keys = [(name, place) for name, place in keyed_numbers(test) if id(place) not in taken]
    taken |= {id(place) for _, place in keys}
    return numbers_together(named, keys, [place for place in numbers_within(test) if id(place) not in taken])
