"""Axes by name, as FlashInfer Trace states them: numbers, what a workload gives, and expressions of the others."""

import ast
import itertools
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from evaluator.foreign.inside.on_cpu import MOST_SIZE, is_size
from evaluator.foreign.inside.refusals import RefusedError

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
    """The extent of each axis; `given`: those of the `var` ones. Raises RefusedError that names the field."""
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
        field, value = f"axes.{name}.value", stated.get("value")
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
