"""The pictures of an evaluation: intervals side by side, curves over k and p, and tables of shares as squares.

Shapes and words with classes of evaluation.css, which has colours for light and for dark pages: nothing in them is
loaded, and a page's policy forbids inline styles.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from trainer.reporting.environment import page_environment

WIDTH: Final = 304
"""Of a picture, in its own units: what a page leaves of a phone's screen of 360, so text is as large as drawn."""
NAME_ROOM: Final = 17
"""Characters of a row's name that there is room for beside a table of squares."""
DOT_ROOM: Final = 15
"""Likewise beside a row of dots, whose names are larger."""
SERIES: Final = 6
"""Colours of series; what comes after them begins anew, with another mark."""


@dataclass(frozen=True)
class Dot:
    """One value with its interval."""

    name: str
    value: float
    low: float | None
    high: float | None
    said: str
    """The value in words."""
    series: int = 0


@dataclass(frozen=True)
class Curve:
    """Values over one axis."""

    name: str
    points: tuple[tuple[float, float], ...]
    series: int


@dataclass(frozen=True)
class Square:
    """One cell of a table."""

    share: float | None
    """In [0, 1], which colours it; None for what was not measured."""
    text: str
    words: str


@dataclass(frozen=True)
class _Axis:
    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low
        return self.start + (value - self.low) / span * (self.end - self.start)


def dots(title: str, rows: Sequence[Dot], *, low: float, high: float, zero: float | None = None) -> Markup:
    """A dot with a whisker for each row, on one axis from `low` to `high` or as far as values go; `zero`: a line.

    Values are shares, or with `zero` differences of shares, which are told in points.
    """
    ends = [end for row in rows for end in (row.value, row.low, row.high) if end is not None]
    x = _Axis(min([low, *ends]), max([high, *ends]), 104, WIDTH - 54)
    told = "; ".join(f"{row.name} {row.said}" for row in rows)
    form = "g" if zero is None else "+g"
    marks = [(x(tick), f"{100 * tick:{form}}" if tick else "0") for tick in round_ticks(x.low, x.high)]
    return _drawn("dots", f"{title}. {told}", rows=rows, x=x, marks=marks, zero=zero)


def curves(title: str, lines: Sequence[Curve], *, across: str) -> Markup:
    """Lines over `across`, of shares from 0 to 1."""
    xs = [x for line in lines for x, _ in line.points]
    low, high = min(xs), max(xs)
    x = _Axis(low, high if high > low else low + 1, 40, WIDTH - 12)
    y = _Axis(0.0, 1.0, 150, 14)
    told = "; ".join(f"{line.name}: {', '.join(f'{a:g} {b:.0%}' for a, b in line.points)}" for line in lines)
    marks = [(x(tick), f"{tick:g}") for tick in (sorted(set(xs)) if len(set(xs)) <= 6 else round_ticks(low, high))]
    return _drawn(
        "curves",
        f"{title}. {told}",
        lines=[(line, [(x(a), y(b)) for a, b in line.points]) for line in lines],
        y=y,
        marks=marks,
        across=across,
    )


def squares(title: str, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[Square]]]) -> Markup:
    """A table of shares, each cell as dark as its share; not measured ones are empty."""
    left = 104
    pitch = min((WIDTH - left) / max(len(columns), 1), 64.0)
    told = "; ".join(f"{name}: {', '.join(cell.words for cell in cells)}" for name, cells in rows)
    return _drawn("squares", f"{title}. {told}", columns=columns, rows=rows, left=left, pitch=pitch)


def round_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers from `low` to `high`, `most` or so."""
    rough = (high - low) / most
    if not rough > 0:
        return [low]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) + 0.0 for number in range(first, last + 1)]


def _drawn(chart: str, words: str, **values: object) -> Markup:
    made = page_environment("trainer.evaluation")
    made.filters.update(tenth=_tenth, cut=cut)
    rooms = {"dot_room": DOT_ROOM, "name_room": NAME_ROOM}
    values |= {"words": words, "width": WIDTH, "colours": SERIES, **rooms}
    return Markup(made.get_template(f"{chart}.svg.j2").render(values))


def _tenth(number: float) -> Markup:
    """A coordinate to a tenth of a unit: nobody sees more."""
    return Markup(f"{number:.1f}".removesuffix(".0"))


def cut(text: str, most: int) -> str:
    """A text in the room of so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
