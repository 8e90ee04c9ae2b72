"""How a difference looks: a table for the terminal, and a page that needs nothing else.

Both texts are hostile, as in a report: unseen characters are written out, markup is never interpreted.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from common.contract import Status
from evaluator.diff.compare import COUNTED, CountedLine, Difference, LinePair, Quantity
from evaluator.report import charts
from evaluator.report.environment import template_environment
from evaluator.report.html import hashed, look, style
from evaluator.report.terminal import printable

_MAX_LINES: Final = 120
"""Pairs of lines in a terminal; a page shows all."""
_SIGNS: Final = {"same": " ", "changed": "~", "removed": "-", "added": "+"}
_STYLES: Final = {"same": "", "changed": "yellow", "removed": "red", "added": "green"}
_JUDGED: Final = ("better", "worse")
_OUTCOMES: Final = {"better": "green", "worse": "red", "other": "", "same": "dim", "unknown": "dim"}


def diff_card(difference: Difference) -> "DifferenceCard":
    """For a terminal of 60 columns and up."""
    return DifferenceCard(difference)


@dataclass(frozen=True)
class DifferenceCard:
    """Both verdicts, what changed in numbers, then the lines that changed in their text or in what they do."""

    difference: Difference

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        told, plain = self.difference, options.ascii_only
        for version in (told.before, told.after):
            yield _text(plain, f"{version.name}: {version.status}. {version.message}")
        yield Text()
        yield self._quantities(plain)
        pairs = [pair for pair in told.lines if pair.differs]
        if not pairs:
            yield _text(plain, "\nThe texts are the same, and so is all that was counted for each line.")
            return
        at = ", ".join(f"{name}={size}" for name, size in (told.counted_at or {}).items())
        yield _text(plain, f"\nLines that differ{f', counted at {at}' if at else ''}:")
        yield self._lines(pairs[:_MAX_LINES], plain)
        if len(pairs) > _MAX_LINES:
            yield _text(plain, f"and {len(pairs) - _MAX_LINES} more lines (--report shows all)")

    def _quantities(self, plain: bool) -> Table:
        table = Table.grid(padding=(0, 2, 0, 0))
        for justify in ("left", "right", "right", "right", "left"):
            table.add_column(justify=justify)
        for quantity in self.difference.quantities:
            shown = _OUTCOMES[quantity.outcome]
            table.add_row(
                _text(plain, quantity.name),
                figure(quantity.before),
                figure(quantity.after),
                Text(change(quantity), shown),
                _text(plain, quantity.unit, "dim"),
            )
        return table

    def _lines(self, pairs: Iterable[LinePair], plain: bool) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
        table.add_column("a", justify="right", style="dim", no_wrap=True)
        table.add_column("b", justify="right", style="dim", no_wrap=True)
        table.add_column("", overflow="fold", ratio=1)
        for name in COUNTED:
            table.add_column(name, justify="right", overflow="fold")
        for pair in pairs:
            sign, colour = _SIGNS[pair.kind], _STYLES[pair.kind]
            texts = [line.text.expandtabs(4) for line in (pair.before, pair.after) if line is not None]
            shown = [f"- {texts[0]}", f"+ {texts[1]}"] if pair.kind == "changed" else [f"{sign} {texts[-1]}"]
            table.add_row(
                str(pair.before.number) if pair.before else "",
                str(pair.after.number) if pair.after else "",
                _text(plain, "\n".join(shown), colour),
                *(_text(plain, counted(pair, name)) for name in COUNTED),
            )
        return table


def diff_page(difference: Difference) -> str:
    """A complete HTML page."""
    sheet = style() + template_environment("evaluator.diff").get_template("difference.css").render()
    policy = f"default-src 'none'; style-src {hashed(sheet)}; base-uri 'none'; form-action 'none'"
    return (
        template_environment("evaluator.diff")
        .get_template("difference.html.j2")
        .render(
            difference=difference,
            drawn=_drawn(difference.quantities),
            tones={version.name: look(Status(version.status)) for version in (difference.before, difference.after)},
            columns=COUNTED,
            figure=figure,
            change=change,
            counted=counted,
            sheet=sheet,
            policy=policy,
        )
    )


def _drawn(quantities: Iterable[Quantity]) -> Markup | None:
    """A picture of what became better or worse by a factor; None where nothing did."""
    judged = (q for q in quantities if q.outcome in _JUDGED)
    ratios = tuple((q.name, (q.after or 0) / q.before if q.before else None, q.outcome == "better") for q in judged)
    return charts.changes(ratios) if ratios else None


def figure(value: float | None) -> str:
    """A number with four digits that count; `-` where there is none."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"


def change(quantity: Quantity) -> str:
    """`x0.25 better`; nothing where it is the same or unknown."""
    if quantity.outcome in ("same", "unknown"):
        return ""
    by = f"x{quantity.ratio:.3g}" if quantity.ratio else f"{(quantity.after or 0) - (quantity.before or 0):+.4g}"
    return by if quantity.outcome == "other" else f"{by} {quantity.outcome}"


def counted(pair: LinePair, name: str) -> str:
    """`1,024 > 256`; one number where both are equal or one has no such line, nothing where it is 0."""
    before, after = (_count(line, name) for line in (pair.before, pair.after))
    if before == after or pair.before is None or pair.after is None:
        return f"{before or after:,}" if before or after else ""
    return f"{before:,} > {after:,}"


def _count(line: CountedLine | None, name: str) -> int:
    return line.counts.get(name, 0) if line else 0


def _text(plain: bool, text: str, colour: str = "") -> Text:
    shown = printable(text)
    return Text(shown.encode("ascii", "backslashreplace").decode("ascii") if plain else shown, colour)
