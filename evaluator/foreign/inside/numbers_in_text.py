"""Numbers in a file's text that other sizes have, beside those that it assigns to a name: equal ones together."""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from evaluator.foreign.inside.stated_sizes import is_size

_LEAST: Final = 16
"""Smaller numbers without a name are heads, windows, bits or steps rather than extents."""
_NEAR_END: Final = 0.9
"""A number from this share of another up is an index near its end, or nearly as large: it stays in proportion."""


class Together:
    """Equal numbers of a file, which have other values together; those a little below stay in proportion.

    An index below an extent stays below it: what a kernel reads there lies in the tensor at every size.
    """

    def __init__(
        self, places: Sequence[ast.Constant], near: Sequence[ast.Constant] = (), varies: bool = True
    ) -> None:
        """`places`: of equal numbers. `varies`: whether other sizes are drawn for it, which takes a name."""
        self._places, self.varies = places, varies
        self._near = [(place, int(place.value)) for place in near]  # type: ignore[arg-type]  # of `is_size`
        self._stated = self._value = int(places[0].value)  # type: ignore[arg-type]

    @property
    def value(self) -> int:
        """What the equal ones are."""
        return self._value

    @value.setter
    def value(self, value: int) -> None:
        self._value = value
        for place in self._places:
            place.value = value
        for place, stated in self._near:
            place.value = max(1, stated * value // self._stated)

    @property
    def whole(self) -> bool:
        """Whether all is as the file states it."""
        return self._value == self._stated


class Fixed:
    """A number that a kernel may rely on: it is made smaller only where nothing else is enough."""

    varies = False

    def __init__(self, value: int) -> None:
        self.value = value


def varies(place: Any) -> bool:
    """Whether other sizes are drawn for a number in a file."""
    return bool(getattr(place, "varies", True))


def shown(constants: Mapping[str, Any]) -> dict[str, int]:
    """Their values by name; a number without a name only where it is another than the file states."""
    return {name: place.value for name, place in constants.items() if varies(place) or not place.whole}


def numbers_together(
    named: Mapping[str, ast.Constant], keys: Sequence[tuple[str, ast.Constant]], others: Iterable[ast.Constant]
) -> dict[str, Any]:
    """All places by name.

    `named`: those that have a name of their own, and vary alone. `keys`: numbers that a kernel is given under a name,
    which are as large as something else: with them goes whatever is equal. `others`: without a name; those that equal
    no key are `number_V`, V what they are.
    """
    own: dict[int, list[str]] = {}
    for name, place in named.items():
        own.setdefault(int(place.value), []).append(name)  # type: ignore[arg-type]  # of `is_size`
    places: dict[int, list[ast.Constant]] = {}
    names: dict[int, str] = {}
    for name, place in keys:
        if _is_extent(place):
            value = int(place.value)  # type: ignore[arg-type]
            places.setdefault(value, []).append(place)
            names.setdefault(value, own[value][0] if value in own else name)
    for place in others:
        if _is_extent(place):
            places.setdefault(int(place.value), []).append(place)  # type: ignore[arg-type]
    found: dict[str, Any] = dict(named)
    near: dict[int, list[ast.Constant]] = {}
    for value in sorted(places, reverse=True):
        above = next((one for one in sorted(places, reverse=True) if _NEAR_END * one <= value < one), None)
        if above is not None and value not in own:
            near.setdefault(above, []).extend(places.pop(value))
    for value, equal in places.items():
        if value in names:
            joined = own.get(value, [])
            for name in joined:
                del found[name]
            equal = [*(named[name] for name in joined), *equal]
        name = names.get(value, f"number_{value}")
        if name not in found:
            found[name] = Together(equal, near.get(value, ()), varies=value in names)
    return found


def _is_extent(place: ast.Constant) -> bool:
    return is_size(place.value) and int(place.value) >= _LEAST  # type: ignore[arg-type]


def numbers_within(node: ast.AST, without: Iterable[ast.AST] = ()) -> Iterator[ast.Constant]:
    """The whole numbers in a part of a file, but for those in other parts of it."""
    left_out = {id(one) for part in without for one in ast.walk(part)}
    for one in ast.walk(node):
        if isinstance(one, ast.Constant) and is_size(one.value) and id(one) not in left_out:
            yield one


def keyed_numbers(node: ast.AST) -> Iterator[tuple[str, ast.Constant]]:
    """Those that a dict holds under a name: `{"N": 1000}`."""
    for one in ast.walk(node):
        for key, value in zip(one.keys, one.values, strict=True) if isinstance(one, ast.Dict) else ():
            name = key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""
            if name.isidentifier() and isinstance(value, ast.Constant) and is_size(value.value):
                yield name, value


def given_numbers(node: ast.AST, tree: ast.Module) -> Iterator[tuple[str, ast.Constant]]:
    """Those that the file's own functions are called with, by the names of their parameters: `self._case(1000)`."""
    own = {one.name: one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)}
    for call in ast.walk(node):
        if not isinstance(call, ast.Call):
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)
        if name not in own:
            continue
        parameters = [one.arg for one in (*own[name].args.posonlyargs, *own[name].args.args)]
        if isinstance(call.func, ast.Attribute) and parameters[:1] == ["self"]:
            parameters = parameters[1:]
        given = [*zip(parameters, call.args, strict=False), *((one.arg, one.value) for one in call.keywords)]
        for parameter, value in given:
            named = parameter is not None and "seed" not in parameter
            if named and isinstance(value, ast.Constant) and is_size(value.value):
                yield str(parameter), value
