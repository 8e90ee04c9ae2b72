"""Files that were written for a GPU and for one type of number, as they are carried out here again and again."""

import ast
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import _lru_cache_wrapper
from types import FunctionType, MethodType
from typing import Any, Final

import torch

from evaluator.foreign.inside.numbers_in_text import FoldedNumbers

OWN_SEED: Final = "_own_seed_of_this_draw"
"""The name under which a file that is carried out here has `operators.own_seed`."""
_SEEDING: Final = ("manual_seed", "manual_seed_all")
_OF_DEVICE: Final = ("synchronize", "set_device")
"""Of `torch.cuda`: what a CPU has no need of, and PyTorch without CUDA has not."""
_SEEDING_OF_RANDOM: Final = ("seed", "default_rng", "Random", "RandomState")


class OnCpu(FoldedNumbers):
    """The file without what is of a GPU: its device is the CPU, and nothing has to be waited for."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:  # noqa: N802
        if isinstance(node.value, str) and (node.value == "cuda" or node.value.startswith("cuda:")):
            return ast.copy_location(ast.Constant("cpu"), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:  # noqa: N802
        self.generic_visit(node)
        called = node.func
        if not isinstance(called, ast.Attribute):
            return node
        if called.attr == "cuda":
            called.attr, node.args, node.keywords = "cpu", [], []
        of = called.value
        if called.attr in _OF_DEVICE and isinstance(of, ast.Attribute) and of.attr == "cuda":
            return ast.copy_location(ast.Constant(None), node)
        return node


class AsComputedHere(OnCpu):
    """Without assertions either, which state types that float64 has not; and `f(…, out=y)` is `y.copy_(f(…))`.
    Generators begin from our seed where it states one, or each draw would be the same.
    """

    def visit_Assert(self, node: ast.Assert) -> ast.AST:  # noqa: N802
        return ast.copy_location(ast.Pass(), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:  # noqa: N802
        visited = super().visit_Call(node)
        if visited is not node:
            return visited
        if _is_seeding(node):
            own = ast.Call(ast.Name(OWN_SEED, ast.Load()), node.args, [])
            node.args = [ast.copy_location(own, node)]
        target = next((one.value for one in node.keywords if one.arg == "out"), None)
        if not isinstance(target, ast.Name):
            return node
        node.keywords = [one for one in node.keywords if one.arg != "out"]
        copied = ast.Call(ast.Attribute(target, "copy_", ast.Load()), [node], [])
        return ast.copy_location(copied, node)


def _is_seeding(node: ast.Call) -> bool:
    """Whether it is `torch.manual_seed(0)`, `generator.manual_seed(0)`, `random.seed(0)`, `np.random.seed(0)` …"""
    called = node.func
    if not isinstance(called, ast.Attribute) or len(node.args) != 1 or node.keywords:
        return False
    of = called.value
    module = of.attr if isinstance(of, ast.Attribute) else getattr(of, "id", "")
    return called.attr in _SEEDING or (called.attr in _SEEDING_OF_RANDOM and module == "random")


def parsed_for_cpu(text: str, name: str) -> ast.Module:
    """The file as it is carried out here. Raises SyntaxError."""
    tree: ast.Module = AsComputedHere().visit(ast.parse(text, name))
    return ast.fix_missing_locations(tree)


_MOST_HELD: Final = 1 << 16
"""Things in one list or dict: what is larger is no cache, and would take long to look through for each call."""
_MAPS: Final = (dict, OrderedDict, defaultdict)
_LISTS: Final = (list, set)
_NOTHING: Final = object()
"""What a cell of a closure holds that has been given no value yet."""


class Remembered:
    """What a file keeps from one call to the next, such as a table that it makes once, as it was before any call: a
    table that was made in float32, or under noise, is not to be in the answer in float64.

    It is what can be reached from the file's names and a model of it: modules, objects, lists, dicts and functions.
    Tensors that are written into in place are not put back: those of a module are given to each call.
    """

    def __init__(self, names: Mapping[str, Any], model: torch.nn.Module) -> None:
        """As it is now. `names`: of the file's own module."""
        self._module = names.get("__name__")
        self._put_back: list[Callable[[], None]] = []
        seen: dict[int, Any] = {}
        waiting: list[Any] = [names, model]
        while waiting:
            one = waiting.pop()
            if id(one) not in seen:
                seen[id(one)] = one  # which keeps it: its number is not given to another
                waiting += self._look(one)

    def restore(self) -> None:
        """As it was then."""
        for put_back in self._put_back:
            put_back()

    def _look(self, one: Any) -> Iterator[Any]:
        """What it holds, of which the same is remembered."""
        if type(one) in _MAPS and len(one) <= _MOST_HELD:
            self._put_back.append(_restoring_map(one))
            yield from (value for name, value in one.items() if name != "__builtins__")
        elif type(one) in _LISTS and len(one) <= _MOST_HELD:
            self._put_back.append(_restoring_list(one))
            yield from one
        elif type(one) is tuple:
            yield from one
        elif isinstance(one, _lru_cache_wrapper):
            self._put_back.append(one.cache_clear)
            yield one.__wrapped__
        elif isinstance(one, staticmethod | classmethod | MethodType):
            yield one.__func__
        elif isinstance(one, property):
            yield from (one.fget, one.fset)
        elif isinstance(one, FunctionType) and one.__module__ == self._module:
            yield from (one.__defaults__, one.__kwdefaults__, vars(one))
            for cell in one.__closure__ or ():
                self._put_back.append(_restoring_cell(cell))
                yield _content(cell)
        elif isinstance(one, type) and one.__module__ == self._module:
            self._put_back.append(_restoring_class(one))
            yield from vars(one).values()
        elif isinstance(one, torch.nn.Module) or type(one).__module__ == self._module:
            yield from (type(one), getattr(one, "__dict__", None))


def _restoring_map(held: Any) -> Callable[[], None]:
    before = list(held.items())

    def put_back() -> None:
        if len(held) != len(before) or not all(
            name is key and one is value for (name, one), (key, value) in zip(held.items(), before, strict=True)
        ):
            held.clear()
            held.update(before)

    return put_back


def _restoring_list(held: Any) -> Callable[[], None]:
    before: Sequence[Any] = list(held)

    def put_back() -> None:
        if len(held) != len(before) or not all(one is other for one, other in zip(held, before, strict=True)):
            held.clear()
            (held.extend if isinstance(held, list) else held.update)(before)

    return put_back


def _restoring_cell(cell: Any) -> Callable[[], None]:
    before = _content(cell)

    def put_back() -> None:
        if _content(cell) is before:
            return
        if before is _NOTHING:
            del cell.cell_contents
        else:
            cell.cell_contents = before

    return put_back


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _NOTHING


def _restoring_class(owner: type) -> Callable[[], None]:
    before = dict(vars(owner))

    def put_back() -> None:
        now = dict(vars(owner))
        for name in now.keys() - before.keys():
            delattr(owner, name)
        for name, value in before.items():
            if now.get(name) is not value:
                setattr(owner, name, value)

    return put_back
