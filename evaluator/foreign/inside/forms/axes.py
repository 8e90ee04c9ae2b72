"""Axes by name, as FlashInfer Trace states them: numbers, what a workload gives, and expressions of the others."""

import ast
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from evaluator.foreign.inside.numbers_in_text import MOST_SIZE, is_size
from evaluator.foreign.inside.refusals import RefusedError

DEFAULT_EXTENT: Final = 64
"""Of an axis whose extent nobody states: a whole tile of most kernels, and three such axes are still small."""
_MOST: Final = 1 << 62
_MOST_POWER: Final = 64
_OPERATORS: Final[Mapping[type, Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_RELATIONS: Final[Mapping[type, Callable[[int, int], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class _UnknownNameError(ValueError):
    """An expression uses a name that is not given."""


def extents(axes: Mapping[str, Any], given: Mapping[str, int]) -> dict[str, int]:
    """The extent of each axis; `given`: those of the `var` ones, and others of the `const` ones than they state.
    Raises RefusedError that names the field.
    """
    found: dict[str, int] = {}
    for name in axes:
        _extent(name, axes, given, found, ())
    return found


def holds(constraint: str, found: Mapping[str, int]) -> bool | None:
    """Whether a relation of axes does, such as `H == K * R`; None where it is of something else too."""
    try:
        node = ast.parse(constraint, mode="eval").body
        if not isinstance(node, ast.Compare):
            return None
        values = [_value(one, found.__getitem__) for one in (node.left, *node.comparators)]
        relations = [_RELATIONS[type(one)] for one in node.ops]
    except (SyntaxError, ValueError, KeyError, ZeroDivisionError, RecursionError, MemoryError):
        return None
    return all(one(*pair) for one, pair in zip(relations, itertools.pairwise(values), strict=True))


def left_open(axes: Mapping[str, Any], constraints: Sequence[Any]) -> dict[str, int]:
    """The `var` axes on which nothing else hangs, each with the extent that is taken where no workload gives one.

    Of `rows_plus_one == rows + 1` it is the one that the definition states first.
    """
    taken: dict[str, int] = {}
    for name, stated in axes.items():
        is_open = isinstance(stated, dict) and stated.get("type") == "var"
        if is_open and name not in completed(axes, constraints, taken):
            taken[name] = DEFAULT_EXTENT
    return taken


def completed(axes: Mapping[str, Any], constraints: Sequence[Any], given: Mapping[str, int]) -> dict[str, int]:
    """`given`, and the extents of `var` axes that follow from it by equations among the constraints, such as
    `hidden == 2 * half`. What follows from none is left out.
    """
    found = dict(given)
    equations = [one for one in map(_equation, constraints) if one is not None]
    while True:
        before = len(found)
        for left, right in equations:
            names = {one.id for side in (left, right) for one in ast.walk(side) if isinstance(one, ast.Name)}
            open_ones = [name for name in names if name in axes and not _is_known(name, axes, found)]
            if len(open_ones) == 1 and isinstance(axes[open_ones[0]], dict):
                name = open_ones[0]
                value = _solved(left, right, name, axes, found) if axes[name].get("type") == "var" else None
                if value is not None:
                    found[name] = value
        if len(found) == before:
            return found


def _equation(constraint: Any) -> tuple[ast.expr, ast.expr] | None:
    try:
        node = ast.parse(str(constraint), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    equation = isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq)
    return (node.left, node.comparators[0]) if equation and isinstance(node, ast.Compare) else None


def _is_known(name: str, axes: Mapping[str, Any], given: Mapping[str, int]) -> bool:
    try:
        _extent(name, axes, given, {}, ())
    except (RefusedError, _UnknownNameError):
        return False
    return True


def _solved(
    left: ast.expr, right: ast.expr, name: str, axes: Mapping[str, Any], given: Mapping[str, int]
) -> int | None:
    """The extent at which both sides are equal, where their difference is linear in it."""

    def difference(value: int) -> int:
        def of(other: str) -> int:
            return value if other == name else _extent(other, axes, given, {}, ())

        return _value(left, of) - _value(right, of)

    try:
        at_zero, slope = difference(0), difference(1) - difference(0)
        value = -at_zero // slope if slope else 0
        return value if is_size(value) and difference(value) == 0 else None
    except (ValueError, ZeroDivisionError, RefusedError, RecursionError):
        return None


def _extent(
    name: str, axes: Mapping[str, Any], given: Mapping[str, int], found: dict[str, int], above: tuple[str, ...]
) -> int:
    if name in found:
        return found[name]
    if name not in axes:
        raise _UnknownNameError(name)
    if name in above:
        circle = " -> ".join((*above[above.index(name) :], name))
        raise RefusedError(f"axes.{name}.expression: it depends on itself: {circle}")
    stated = axes[name] if isinstance(axes[name], dict) else {}
    kind, field, value = stated.get("type"), f"axes.{name}", None
    if kind == "const":
        field, value = f"axes.{name}.value", given.get(name, stated.get("value"))
    elif kind == "var":
        if name not in given:
            raise RefusedError(f"axes.{name}: it is var, and no workload gives its extent")
        field, value = f"workload.axes.{name}", given[name]
    elif kind == "expr":
        field = f"axes.{name}.expression"
        value = _computed(field, stated.get("expression"), name, axes, given, found, above)
    else:
        raise RefusedError(f"axes.{name}.type: it is {kind!r}, and an axis is const, var or expr")
    if not is_size(value):
        raise RefusedError(f"{field}: it is {str(value)[:60]}, and an extent is a number from 1 to {MOST_SIZE - 1:,}")
    found[name] = int(value)  # type: ignore[arg-type]
    return found[name]


def _computed(
    field: str,
    expression: Any,
    name: str,
    axes: Mapping[str, Any],
    given: Mapping[str, int],
    found: dict[str, int],
    above: tuple[str, ...],
) -> int:
    try:
        node = ast.parse(str(expression), mode="eval").body
        return _value(node, lambda other: _extent(other, axes, given, found, (*above, name)))
    except _UnknownNameError as unknown:
        raise RefusedError(f"{field}: {unknown} is no axis") from unknown
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError) as error:
        raise RefusedError(f"{field}: {str(expression)[:80]!r} cannot be computed: {str(error)[:120]}") from error


def _value(node: ast.expr, of: Callable[[str], int]) -> int:
    """Raises ValueError, ZeroDivisionError, and what `of` raises."""
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < _MOST:
        return node.value
    if isinstance(node, ast.Name):
        return of(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        value = _value(node.operand, of)
        return -value if isinstance(node.op, ast.USub) else value
    if not isinstance(node, ast.BinOp):
        raise ValueError(f"{ast.unparse(node)[:60]} is no arithmetic of axes")
    left, right = _value(node.left, of), _value(node.right, of)
    if isinstance(node.op, ast.Div):
        if left % right:
            raise ValueError(f"{left} / {right} is no whole number")
        value = left // right
    elif isinstance(node.op, ast.Pow):
        if not 0 <= right <= _MOST_POWER:
            raise ValueError(f"a power of {right}")
        value = left**right
    elif type(node.op) in _OPERATORS:
        value = _OPERATORS[type(node.op)](left, right)
    else:
        raise ValueError(f"{ast.unparse(node)[:60]} is no arithmetic of axes")
    if abs(value) >= _MOST:
        raise ValueError("it is too large")
    return value
