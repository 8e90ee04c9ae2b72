"""What a file keeps from one call to the next, such as a table that it makes once, and how that is forgotten.

A table that was made in float32, or under noise, is not to be in the answer in float64.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import _lru_cache_wrapper
from types import FunctionType, MethodType
from typing import Any, Final

import torch

_MOST_HELD: Final = 1 << 16
"""Things in one list or dict: what is larger is no cache, and would take long to look through for each call."""
_MAPS: Final = (dict, OrderedDict, defaultdict)
_LISTS: Final = (list, set)
_NOTHING: Final = object()
"""What a cell of a closure holds that has been given no value yet."""


class Remembered:
    """What can be reached from a file's names and a model of it: its modules, objects, lists, dicts and functions.

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
