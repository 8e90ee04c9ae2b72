"""Numbers in a file's text that other sizes have: those that it gives a name, and others, equal ones together."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from evaluator.foreign.inside.refusals import FILE, RefusedError

MOST_SIZE: Final = 1 << 31
_MOST_AXES: Final = 6
"""Of a tuple the numbers after these are no sizes: it is no shape."""
_BATCH: Final = "batch"
_FUNCTIONS: Final = frozenset({"exp", "exp2", "log", "log2", "log10", "pow", "sqrt", "rsqrt"})
_EIGHTHS: Final = 8
"""What channels, heads and edges of images are multiples of: all are made smaller together, and fit each other."""
_FOLDED: Final = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.FloorDiv: lambda left, right: left // right if right else 0,
    ast.LShift: lambda left, right: left << right if right < 32 else 0,
    ast.Pow: lambda left, right: left**right if right < 32 else 0,
}
_ARITHMETIC: Final = re.compile(rb"\d[\w\s+*/<()-]*")
_LEAST: Final = 16
"""Smaller numbers without a name are heads, windows, bits or steps rather than extents."""
_NEAR_END: Final = 0.9
"""A number from this share of another up is an index near its end, or nearly as large: it stays in proportion."""


def is_size(value: Any) -> bool:
    """Whether it can be the extent of an axis."""
    return type(value) is int and 1 <= value < MOST_SIZE


class FoldedNumbers(ast.NodeTransformer):
    """Numbers such as `1 << 20` are one number."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        left, right, fold = node.left, node.right, _FOLDED.get(type(node.op))
        if not (fold and isinstance(left, ast.Constant) and isinstance(right, ast.Constant)):
            return node
        if not (is_size(left.value) and is_size(right.value)):
            return node
        value = fold(left.value, right.value)
        return ast.copy_location(ast.Constant(value), node) if is_size(value) else node


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


class Share:
    """All numbers of a part of the file that are multiples of eight, made smaller together, to an eighth at least.

    They are no constants, whose meaning has a name. They are there for networks: one of 500 MB of weights becomes one
    of 8 MB.
    """

    varies = False

    def __init__(self, places: Sequence[ast.Constant]) -> None:
        self._stated = [(place, int(place.value)) for place in places]  # type: ignore[arg-type]  # of `_multiples`
        self._largest = self._value = max(stated for _, stated in self._stated)

    @property
    def value(self) -> int:
        """Of the largest of them."""
        return self._value

    @value.setter
    def value(self, largest: int) -> None:
        eighths, rest = divmod(_EIGHTHS * largest, self._largest)
        if rest or not eighths:
            raise RefusedError(
                f"its numbers are not made smaller than by eight: {largest} of {self._largest}; what the file's top "
                "has a name for (`N = 4096`) is made as small as is needed"
            )
        self._value = largest
        for place, stated in self._stated:
            place.value = stated * eighths // _EIGHTHS

    @property
    def whole(self) -> bool:
        """Whether all is as the file states it."""
        return self._value == self._largest


def parsed(text: str, altered: type[FoldedNumbers] = FoldedNumbers) -> tuple[ast.Module, dict[str, Any]]:
    """The file as it is carried out, and the numbers in it that other sizes have: `constants_in` and `shares_in` it.

    `altered`: what is changed in the text. Raises SyntaxError.
    """
    tree: ast.Module = ast.fix_missing_locations(altered().visit(ast.parse(text, FILE)))
    constants = constants_in(tree)
    # A Model holds no number of examples: one of its own that equals it is another.
    return tree, constants | shares_in(tree, [one.value for name, one in constants.items() if _BATCH not in name])


def text_at(text: str, sizes: Mapping[str, int]) -> str:
    """The file's text with these values in the place of its numbers; all else stays. Raises SyntaxError."""
    tree, constants = parsed(text)
    places = [one for one in ast.walk(tree) if isinstance(one, ast.Constant) and is_size(one.value)]
    stated = [one.value for one in places]
    for size, value in sizes.items():
        if size in constants:
            constants[size].value = value
    changed = [one for one, before in zip(places, stated, strict=True) if one.value != before]
    data = text.encode()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for one in sorted(changed, key=lambda one: (one.lineno, one.col_offset), reverse=True):
        start = starts[one.lineno - 1] + one.col_offset
        end = starts[(one.end_lineno or one.lineno) - 1] + (one.end_col_offset or 0)
        if _ARITHMETIC.fullmatch(data[start:end]):  # of one in an f-string nobody knows where it is
            data = data[:start] + str(one.value).encode() + data[end:]
    return data.decode()


def shares_in(tree: ast.Module, named: Sequence[int]) -> dict[str, Share]:
    """The numbers of the module's own classes with what they are made with, and those of the inputs.

    Without the `named`: they are as large as what the file's top has a name for.
    """
    inputs = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "get_inputs"]
    others = [
        node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name != "get_inputs"
    ]
    found = {"largest_in_model": _multiples(others, named), "largest_in_inputs": _multiples(inputs, named)}
    defined = set(_stored(tree.body))
    return {name: Share(places) for name, places in found.items() if places and name not in defined}


def _multiples(nodes: Iterable[ast.AST], named: Sequence[int]) -> list[ast.Constant]:
    within = [one for node in nodes for one in ast.walk(node)]
    factors = {id(one) for node in within for one in _factors(node)}
    multiplied = {id(one) for node in within for one in _multiplied(node)}
    places = [one for one in within if isinstance(one, ast.Constant) and is_size(one.value)]
    unnamed = [one for one in places if one.value not in named]
    sizes = [one for one in unnamed if int(one.value) % _EIGHTHS == 0]  # type: ignore[arg-type]  # of `is_size`
    alone = {one.value for one in sizes if id(one) not in factors}
    # `512 * expansion` goes with 512 elsewhere: it is as many channels, of as many parts.
    return [one for one in sizes if id(one) not in factors or (id(one) in multiplied and one.value in alone)]


def _multiplied(node: ast.AST) -> Sequence[ast.AST]:
    return (node.left, node.right) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) else ()


def _factors(node: ast.AST) -> Sequence[ast.AST]:
    """What stands beside an arithmetic sign, or is given to a logarithm and such: a number there is no size.

    As in `channels // 8` and `coordinates *= 8 / log2(8)`.
    """
    if isinstance(node, ast.BinOp):
        return node.left, node.right
    if isinstance(node, ast.AugAssign):
        return (node.value,)
    called = node.func if isinstance(node, ast.Call) else None
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return node.args if isinstance(node, ast.Call) and name in _FUNCTIONS else ()


def constants_in(tree: ast.Module) -> dict[str, Any]:
    """What the file's top assigns once and as a number, by name, with the place of the number; the numbers in
    `shape = (16, 32)` as `shape_0` and `shape_1`.
    """
    stored = Counter(_stored(tree.body))
    found: dict[str, Any] = {}
    within: dict[str, Any] = {}
    for name, value in assigned(tree.body):
        if stored[name] == 1 and isinstance(value, ast.Tuple | ast.List):
            within |= {f"{name}_{at}": one for at, one in enumerate(value.elts[:_MOST_AXES])}
        elif stored[name] == 1:
            found[name] = value
    found |= {name: one for name, one in within.items() if name not in stored}
    numbers = {name: one for name, one in found.items() if isinstance(one, ast.Constant) and is_size(one.value)}
    return {name: one for name, one in numbers.items() if name.isascii()}  # others no kernel's parameters can have


def assigned(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """The names in `N = 16`, `N: int = 16`, `M, N = 16, 32` with what they are given; of `H = W = 16` the first."""
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, node.value
        if not isinstance(node, ast.Assign):
            continue
        target, value = node.targets[0], node.value
        several = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
        names = target.elts if several and isinstance(target, ast.Tuple) else [target]
        values = value.elts if several and isinstance(value, ast.Tuple) else [value]
        for one, given in zip(names, values, strict=False):
            if isinstance(one, ast.Name):
                yield one.id, given


def _stored(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Names that are assigned in the module's own scope, or declared global anywhere; each as often as it is."""
    for node in nodes:
        inner = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda)
        if inner:
            yield from (name for one in ast.walk(node) if isinstance(one, ast.Global) for name in one.names)
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        yield from _stored(ast.iter_child_nodes(node))
