"""Parts of pages in Markdown that benchmarks write: tables, lists, and goals in words."""

from collections.abc import Iterable, Sequence
from typing import Any


def goal_in_words(measured: float, goal: Sequence[Any] | None) -> str:
    """`at least 300: met`; empty without a goal."""
    if goal is None:
        return ""
    sign, value = goal
    reached = measured >= value if sign == ">=" else measured <= value
    return (
        f"{sign.replace('>=', 'at least').replace('<=', 'at most')} {value:g}: {'met' if reached else '**missed**'}"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """All cells are text."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def bullets(lines: Iterable[str]) -> str:
    """A list, after an empty line."""
    return "".join(f"\n- {line}" for line in lines) + "\n"
