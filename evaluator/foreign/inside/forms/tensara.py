"""Tensara's form of a problem: a class that extends `Problem`, in a file `def.py`.

Source: https://github.com/tensara/problems, README, "Adding a Problem", and the problems there. The inputs are those
of its first test case; `reference_solution` returns the outputs; `parameters` names both, as kernels there have them.
"""

import ast
import inspect
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Any, Final

import torch
from torch.utils import _pytree as pytree

from evaluator.foreign.inside.kernelbench import Arguments, Place, ReferenceFile, seeded
from evaluator.foreign.inside.numbers_in_text import is_size, numbers_together, numbers_within, shown
from evaluator.foreign.inside.on_cpu import parsed_for_cpu
from evaluator.foreign.inside.refusals import FILE, RefusedError, refused_where_it_fails

_CASES: Final = "generate_test_cases"
_EXTRA: Final = "get_extra_params"
"""Numbers that follow from a test case, and arrays of them."""
_DTYPES: Final = {
    "double": torch.float64,
    "half": torch.float16,
    "__half": torch.float16,
    "float16": torch.float16,
    "__nv_bfloat16": torch.bfloat16,
    "nv_bfloat16": torch.bfloat16,
    "bfloat16": torch.bfloat16,
    "int": torch.int32,
    "size_t": torch.int64,
    "uint32_t": torch.int32,
    "uint64_t": torch.int64,
    "int8_t": torch.int8,
    "uint8_t": torch.uint8,
}
"""Of the types that `parameters` names; all others are float32."""


class _Problem:
    """What a problem extends."""

    parameters: Any = ()

    def __init__(self, name: str = "", *rest: Any, **more: Any) -> None:
        self.name = name

    def param_dtype(self, key: Any) -> torch.dtype:
        listed = list(self.parameters)
        found = listed[key] if isinstance(key, int) else next(one for one in listed if one["name"] == key)
        return _DTYPES.get(found["type"], torch.float32)

    @staticmethod
    def get_seed(text: str) -> int:
        """Follows the seed under which the inputs are made."""
        return (zlib.crc32(str(text).encode()) ^ torch.initial_seed()) & 0x7FFFFFFF

    def get_extra_params(self, test_case: Any) -> list[Any]:
        return []


class TensaraFile(ReferenceFile):
    """A problem, at the size of its first test case or at others."""

    def __init__(self, text: str, sizes: Mapping[str, int] = MappingProxyType({})) -> None:
        """`sizes`: values in the place of those of its `constants`. Raises RefusedError."""
        module = ModuleType("problem")
        module.Problem = _Problem  # type: ignore[attr-defined]
        sys.modules["problem"] = module
        with refused_where_it_fails("carrying out the file"):
            tree, constants = self.parsed(text)
        super().__init__(tree, constants, sizes)
        defined = [
            one
            for one in self._names.values()
            if isinstance(one, type) and issubclass(one, _Problem) and one is not _Problem
        ]
        if len(defined) != 1:
            raise RefusedError(f"it has {len(defined)} classes that extend Problem, and one is needed")
        self._problem: Any = defined[0]
        for name in ("reference_solution", _CASES):
            if not callable(getattr(self._problem, name, None)):
                line = next((node.lineno for node in tree.body if isinstance(node, ast.ClassDef)), None)
                raise RefusedError(f"its class {self._problem.__name__} has no method `{name}`", line)
        self.sizes = shown(self.constants)
        methods = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == _EXTRA]
        self._extra_on_device = any(
            isinstance(node, ast.keyword) and node.arg == "device" for one in methods for node in ast.walk(one)
        )

    @staticmethod
    def parsed(text: str) -> tuple[ast.Module, dict[str, Any]]:
        """The numbers are those of the first entry of each list of test cases, and those that stand in no such list.
        Raises SyntaxError.
        """
        tree = parsed_for_cpu(text, FILE)
        return tree, _constants(tree)

    def model(self, seed: int) -> torch.nn.Module:
        """The problem as a module of the tensors that it reads. Raises RefusedError."""
        seeded(seed)
        with refused_where_it_fails(_CASES):
            problem = self._problem()
            # Older problems are given the type of all tensors.
            typed = "dtype" in inspect.signature(problem.generate_test_cases).parameters
            cases = problem.generate_test_cases(torch.float32) if typed else problem.generate_test_cases()
            made = next(iter(cases))["create_inputs"]() if cases else None
        if made is None:
            raise RefusedError(f"{_CASES} gives no test case")
        inputs = list(made) if isinstance(made, list | tuple) else [made]
        listed = problem.parameters or ()
        with refused_where_it_fails("parameters"):
            pointers = [(str(one["name"]), bool(one.get("const"))) for one in listed if one.get("pointer")]
            own = list(inspect.signature(problem.reference_solution).parameters)
            extra = problem.get_extra_params(next(iter(cases)))
        numbers = [one for one in (*inputs, *extra) if isinstance(one, int | float)]
        self.entry = _entry(listed, numbers, self.sizes)
        # As its judge has it: https://github.com/tensara/tensara, engine/runner.py.
        self.zeroed = frozenset(name for name, const in pointers if not const)
        read, self.output_names = ([name for name, const in pointers if const is kind] for kind in (True, False))
        solved = _Solved(problem, inputs, read, own)
        self.shapes = _shapes(read[len(solved.tensors) :], extra, solved.tensors) if self._extra_on_device else {}
        return solved

    def arguments(self, model: torch.nn.Module, seed: int) -> Arguments:
        """The tensors of the test case, as `model` was made with. Raises RefusedError."""
        assert isinstance(model, _Solved)
        tensors = {name: value.detach() for name, value in model.tensors.items()}
        places: Sequence[Any] = [Place(name) for name in tensors]
        return Arguments(tensors, places, pytree.tree_flatten((list(tensors), {}))[1])


def _entry(
    listed: Sequence[Mapping[str, Any]], numbers: Sequence[float], sizes: Mapping[str, int]
) -> list[tuple[str, float | None, bool]]:
    """What `solution` takes; nothing where the value of one of its numbers is not known."""
    left = list(numbers)
    found: list[tuple[str, float | None, bool]] = []
    for one in listed:
        name = str(one["name"])
        if one.get("pointer"):
            found.append((name, None, False))
        elif name in sizes and sizes[name] not in left[:1]:
            found.append((name, sizes[name], False))
        elif left:
            found.append((name, left.pop(0), False))
        else:
            return []
    return found


def _shapes(left: Sequence[str], extra: Sequence[Any], tensors: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Of the pointers that are `left`, those that are a tensor's shape by name and contents; and that tensor."""
    arrays = [one for one in extra if isinstance(one, torch.Tensor)]
    if len(arrays) != len(left):
        return {}
    found = {}
    for name, array in zip(left, arrays, strict=True):
        alike = [one for one, tensor in tensors.items() if array.tolist() == list(tensor.shape)]
        if "shape" in name and array.dtype is torch.int64 and alike:
            found[name] = alike[0]
    return found


class _Solved(torch.nn.Module):
    """What a solution computes."""

    def __init__(self, problem: Any, inputs: Sequence[Any], read: Sequence[str], own: Sequence[str]) -> None:
        """`read`: the names of the tensors that a kernel reads; `own`: those of the reference's parameters."""
        super().__init__()
        self.problem, self.inputs = problem, inputs
        places = [at for at, value in enumerate(inputs) if isinstance(value, torch.Tensor)]
        names = read[: len(places)] if len(read) >= len(places) else [own[at] for at in places if at < len(own)]
        if len(set(names)) != len(places) or not places:
            raise RefusedError(f"its first test case has {len(places)} tensors, and {len(set(names))} names for them")
        self.tensors = {name: inputs[at] for name, at in zip(names, places, strict=True)}

    def forward(self, *given: torch.Tensor) -> Any:
        """What the reference returns."""
        tensors = iter(given)
        return self.problem.reference_solution(
            *(next(tensors) if isinstance(value, torch.Tensor) else value for value in self.inputs)
        )


def _constants(tree: ast.Module) -> dict[str, Any]:
    """The whole numbers in the first entries of the lists that loops of the test cases go through, by the names that
    they have there: `for m, n in [(64, 32), …]`; of `for shape, dim in [((8, 4), 1), …]` they are `shape_0`,
    `shape_1` and `dim`, and of `for case in [{"n": 8, "dims": (4, 2)}, …]` they are `n`, `dims_0` and `dims_1`. Then
    those of the test cases that have no name.
    """
    methods = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == _CASES]
    if not methods:
        return {}
    named: dict[str, ast.Constant] = {}
    lists = []
    for target, entries in _loops(methods[0]):
        lists.append(entries)
        for name, place in _named_numbers(target, entries.elts[0]):
            named.setdefault(name, place)
    return numbers_together(named, (), numbers_within(methods[0], lists))


def _loops(method: ast.FunctionDef) -> Iterator[tuple[ast.expr, ast.List | ast.Tuple]]:
    """What loops of the test cases go through."""
    assigned: dict[str, list[ast.expr]] = {}
    for node in ast.walk(method):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            assigned.setdefault(node.targets[0].id, []).append(node.value)
    for node in ast.walk(method):
        if not isinstance(node, ast.For | ast.comprehension):
            continue
        through: ast.expr | None = node.iter
        if isinstance(through, ast.Name):
            values = assigned.get(through.id, [])
            through = values[0] if len(values) == 1 else None
        if isinstance(through, ast.List | ast.Tuple) and through.elts:
            yield node.target, through


def _named_numbers(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.Constant]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, other in zip(target.elts, value.elts, strict=True):
            yield from _named_numbers(one, other)
    elif isinstance(target, ast.Name) and isinstance(value, ast.Constant) and is_size(value.value):
        yield target.id, value
    elif isinstance(target, ast.Name) and isinstance(value, ast.Tuple):
        for at, one in enumerate(value.elts):
            if isinstance(one, ast.Constant) and is_size(one.value):
                yield f"{target.id}_{at}", one
    elif isinstance(target, ast.Name) and isinstance(value, ast.Dict):
        for key, given in zip(value.keys, value.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value.isidentifier():
                yield from _named_numbers(ast.Name(key.value, ast.Store()), given)
