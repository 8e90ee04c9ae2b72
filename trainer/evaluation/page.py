"""An evaluation as one web page that needs nothing else: tables with intervals, pictures, what is not measured."""

from functools import cache
from pathlib import Path
from typing import Final, Literal

from jinja2 import Environment
from markupsafe import Markup

from trainer.evaluation.measures import NOT_HERE, named
from trainer.evaluation.pictures import DOT_ROOM, NAME_ROOM, Curve, Dot, Square, curves, cut, dots, squares
from trainer.evaluation.report import EvaluationReport, Figure, PairedFigure, ProblemResult
from trainer.evaluation.task_sets import MEANINGS, SetName
from trainer.reporting.environment import page_environment

MOST_PROBLEMS: Final = 60
"""Rows of the picture of problems; all are in the JSON."""
NOT_ASKED: Final = "not asked"


def write_page(report: EvaluationReport, path: Path) -> None:
    """Write the page of a report. Raises OSError."""
    page = _environment().get_template("evaluation.html.j2")
    path.write_text(page.render(report=report, pictures=pictures_of(report)), encoding="utf-8")


def written_value(name: str, value: float) -> str:
    """A figure's value as people read it: `52.0 %`, `1.24x`, `3.50`."""
    unit = named(name)[2]
    if unit == "share":
        return f"{100 * value:.1f} %"
    return f"{value:.2f}x" if unit == "times" else f"{value:.3g}" if abs(value) >= 100 else f"{value:.2f}"


def figure_text(name: str, figure: Figure | None) -> str:
    """A figure with its interval, or why there is none, in one line."""
    if figure is None:
        return NOT_ASKED
    if figure.value is None:
        return str(figure.why_not)
    if figure.low is None or figure.high is None:
        return written_value(name, figure.value)
    low, high = written_value(name, figure.low), written_value(name, figure.high)
    return f"{written_value(name, figure.value)} ({low} to {high})"


def measured_names(report: EvaluationReport, of: SetName | None) -> tuple[list[str], dict[str, list[str]]]:
    """The figures that any system has a value of, over a set or over all tasks, and the headings of those that
    nothing measured, by the reason. A figure that is unknown for another reason, as that no kernel is right, is
    among the former.
    """
    shown: list[str] = []
    unmeasured: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for one in report.systems for name in one.figures):
        figures = [(one.figures if of is None else one.sets.get(of, {})).get(name) for one in report.systems]
        reasons = [str(figure.why_not) for figure in figures if figure is not None and figure.value is None]
        not_here = [reason for reason in reasons if reason.startswith(NOT_HERE)]
        if not_here and not any(figure is not None and figure.value is not None for figure in figures):
            unmeasured.setdefault(not_here[0].removeprefix(NOT_HERE), []).append(named(name)[0])
        else:
            shown.append(name)
    return shown, unmeasured


def p_value(p: float) -> str:
    """`0.031`, or `< 0.0001`."""
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}"


def written_change(figure: PairedFigure, end: Literal["value", "low", "high"] = "value") -> str:
    """A difference, or one of its ends: in points of a percentage, as a ratio of times, or as a number."""
    value = getattr(figure.difference, end)
    unit = named(figure.name)[2]
    if unit == "times":
        return f"{value:.2f}x"
    text = f"{100 * value:+.1f}" if unit == "share" else f"{value:+.3f}"
    # Nothing has no sign.
    return text[1:] if float(text) == 0 else text


def is_sure(figure: PairedFigure) -> bool:
    """Whether the interval of a difference leaves out that there is none."""
    nothing = 1.0 if named(figure.name)[2] == "times" else 0.0
    low, high = figure.difference.low, figure.difference.high
    return low is not None and high is not None and not low <= nothing <= high


def pictures_of(report: EvaluationReport) -> list[tuple[str, Markup, str]]:
    """Title, picture and caption of what this report has something to draw of."""
    found = []
    for name in ("pass@1", "compile_rate"):
        rows = [
            Dot(one.name, figure.value, figure.low, figure.high, written_value(name, figure.value), place)
            for place, one in enumerate(report.systems)
            if (figure := one.figures.get(name)) is not None and figure.value is not None
        ]
        if rows:
            title, meaning, _ = named(name)
            found.append((title, dots(title, rows, low=0, high=1), f"{meaning}, with 95 % intervals"))
    found += _curves(report)
    differences = [
        Dot(
            _difference_name(one.second, one.first),
            figure.difference.value,
            figure.difference.low,
            figure.difference.high,
            written_change(figure),
            place,
        )
        for place, one in enumerate(each for each in report.comparisons if each.set is None or len(report.sets) == 1)
        for figure in one.figures
        if figure.name == "pass@1" and figure.difference.value is not None
    ]
    if differences:
        title = "Differences in pass@1"
        caption = "second less first, over the same tasks, with 95 % intervals; points of a percentage on the right"
        found.append((title, dots(title, differences, low=-0.1, high=0.1, zero=0.0), caption))
    found.append(_problems(report))
    if report.cross_play:
        found.append(_pairs(report))
    return found


def _difference_name(second: str, first: str) -> str:
    """Both names, shortened where they have no room beside a row of dots: each has half of it, and what the other one
    leaves.
    """
    room = DOT_ROOM - len(" - ")
    rooms = (max(room // 2, room - len(other)) for other in (first, second))
    return " - ".join(cut(name, most) for name, most in zip((second, first), rooms, strict=True))


def _curves(report: EvaluationReport) -> list[tuple[str, Markup, str]]:
    found = []
    over_k = [
        Curve(one.name, tuple((k, f.value) for k, f in enumerate(one.pass_at, 1) if f.value is not None), place)
        for place, one in enumerate(report.systems)
    ]
    if any(len(line.points) > 1 for line in over_k):
        drawn = curves("pass@k", [line for line in over_k if line.points], across="k conversations")
        found.append(("pass@k", drawn, "chance that one of k conversations has a right kernel"))
    over_p = [
        Curve(
            one.name,
            tuple(
                (float(name.removeprefix("fast_").removesuffix("/eager")), figure.value)
                for name, figure in one.figures.items()
                if name.startswith("fast_") and name.endswith("/eager") and figure.value is not None
            ),
            place,
        )
        for place, one in enumerate(report.systems)
    ]
    if any(line.points for line in over_p):
        drawn = curves("fast_p", [line for line in over_p if line.points], across="p times PyTorch eager")
        found.append(("fast_p", drawn, "share of conversations with a right kernel more than p times as fast"))
    return found


def _problems(report: EvaluationReport) -> tuple[str, Markup, str]:
    by_system = [{(one.set, one.problem): one for one in system.problems} for system in report.systems]
    keys = list(dict.fromkeys(key for each in by_system for key in each))
    several = len(report.sets) > 1
    rows = [
        (
            f"{cut(problem, NAME_ROOM - 4)} ({name[0]})" if several else problem,
            [_square(each.get((name, problem))) for each in by_system],
        )
        for name, problem in keys[:MOST_PROBLEMS]
    ]
    caption = "share of conversations with a right kernel"
    if several:
        caption += f"; {', '.join(f'({name[0]}) {name}' for name in report.sets)}"
    if len(keys) > MOST_PROBLEMS:
        caption += f"; the first {MOST_PROBLEMS} of {len(keys)}"
    title = "By problem"
    return title, squares(title, [one.name for one in report.systems], rows), caption


def _square(result: ProblemResult | None) -> Square:
    if result is None or not result.conversations:
        return Square(None, "–", "not judged")
    share = result.passed / result.conversations
    return Square(share, f"{share:.0%}", f"{result.passed} of {result.conversations} right")


def _pairs(report: EvaluationReport) -> tuple[str, Markup, str]:
    assert report.cross_play is not None
    pairings = {(one.generator, one.optimizer): one.reward for one in report.cross_play.pairings}
    generators = list(dict.fromkeys(generator for generator, _ in pairings))
    optimizers = list(dict.fromkeys(optimizer for _, optimizer in pairings))
    most = max((reward for reward in pairings.values() if reward is not None), default=0.0) or 1.0
    rows = []
    for generator in generators:
        cells = []
        for optimizer in optimizers:
            reward = pairings.get((generator, optimizer))
            if reward is None:
                cells.append(Square(None, "–", "not judged"))
            else:
                words = f"{generator} with {optimizer}: {reward:.3f}"
                cells.append(Square(min(max(reward / most, 0.0), 1.0), f"{reward:.2f}", words))
        rows.append((generator, cells))
    title = "Cross-play"
    caption = "mean reward of a row's Generator with a column's Optimizer"
    return title, squares(title, optimizers, rows), caption


@cache
def _environment() -> Environment:
    made = page_environment("trainer.evaluation", "transcripts.css", "evaluation.css")
    made.globals.update(
        named=named,
        measured_names=measured_names,
        value=written_value,
        change=written_change,
        sure=is_sure,
        p_value=p_value,
        meanings=MEANINGS,
    )
    return made
