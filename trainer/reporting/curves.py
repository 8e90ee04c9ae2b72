"""A run's curves as one picture: reward, compile and pass rates, turns; legible on a telephone."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trainer.errors import ConfigurationError

try:
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError as error:
    raise ConfigurationError(
        f"Curves cannot be drawn: {error}.", "Install what draws them: pip install 'assay[curves]'"
    ) from error

_WIDTH_IN: Final = 4.2
_PANEL_IN: Final = 2.3
_DPI: Final = 200
_BLUE, _ORANGE, _GREEN, _GREY = "#0b62a4", "#c2540a", "#1b7f4b", "#5b6470"
_SMOOTHED_STEPS: Final = 5

PANELS: Final[Sequence[tuple[str, Sequence[tuple[str, str, str]]]]] = (
    (
        "Reward",
        (
            ("reward/final", "best of a conversation", _BLUE),
            ("reward/generator", "Generator's kernels", _GREEN),
            ("reward/optimizer", "Optimizer's kernels", _ORANGE),
        ),
    ),
    (
        "Share",
        (
            ("compile_rate", "answers that compile", _GREY),
            ("pass_rate", "conversations with a right kernel", _BLUE),
            ("pass_rate/first", "first kernels that are right", _GREEN),
        ),
    ),
    ("Kernels per conversation", (("turns", "turns used", _BLUE),)),
    (
        "Speedup of right kernels, median",
        (
            ("speedup/measured", "over the baseline, on a GPU", _GREEN),
            ("speedup/over_naive", "over the naive kernel, estimated", _GREY),
        ),
    ),
    (
        "Speed over the kernel that was given",
        (("speedup/over_given", "the Optimizer's right kernels, geometric mean", _ORANGE),),
    ),
)
"""Title of a panel; its curves: measure, meaning, colour. One that no line has a measure of is left out."""


def draw_curves(lines: Sequence[Mapping[str, Any]], path: Path, title: str = "") -> None:
    """Draw the lines of `trainer.reporting.metrics.read_measures` into `path` (PNG, SVG or PDF, by its ending).

    Thin lines are single steps, thick ones the mean of the newest five; dots are evaluations on held-out tasks.
    Raises ValueError where there is nothing to draw.
    """
    if not lines:
        raise ValueError("there are no measures to draw: not one step has ended yet")
    with mpl.rc_context({"font.size": 9, "axes.titlesize": 9, "svg.fonttype": "none", "svg.hashsalt": "assay"}):
        shown = [(name, curves) for name, curves in PANELS if _known(curves, lines)]
        figure = Figure(figsize=(_WIDTH_IN, _PANEL_IN * len(shown)), dpi=_DPI, layout="constrained")
        panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (name, curves) in zip(panels, shown, strict=True):
            for measure, meaning, colour in curves:
                _curve(axes, lines, measure, meaning, colour)
            _finish(axes, name)
        panels[-1].set_xlabel("Step")
        panels[-1].xaxis.get_major_locator().set_params(integer=True)
        dots = "dots: held-out tasks" if any(line["kind"] == "held_out" for line in lines) else ""
        if title or dots:
            figure.suptitle("; ".join(filter(None, (title, dots))), fontsize=10)
        path.parent.mkdir(parents=True, exist_ok=True)
        metadata: dict[str, Any] = {"Date": None} if path.suffix == ".svg" else {}
        figure.savefig(path, metadata=metadata)


def _known(curves: Sequence[tuple[str, str, str]], lines: Sequence[Mapping[str, Any]]) -> bool:
    return any(measure in line for measure, _, _ in curves for line in lines)


def _curve(axes: Axes, lines: Sequence[Mapping[str, Any]], measure: str, meaning: str, colour: str) -> None:
    steps = [(line["step"], line[measure]) for line in lines if line["kind"] == "train" and measure in line]
    held_out = [(line["step"], line[measure]) for line in lines if line["kind"] == "held_out" and measure in line]
    if steps:
        x, y = zip(*steps, strict=True)
        axes.plot(x, y, color=colour, linewidth=0.6, alpha=0.4)
        smooth = [
            sum(y[max(0, i - _SMOOTHED_STEPS + 1) : i + 1]) / min(i + 1, _SMOOTHED_STEPS) for i in range(len(y))
        ]
        # One step makes no line.
        alone = "o" if len(x) == 1 else None
        axes.plot(x, smooth, color=colour, linewidth=1.8, marker=alone, label=meaning)
    if held_out:
        x, y = zip(*held_out, strict=True)
        axes.plot(x, y, "o", color=colour, markersize=4.5, markeredgecolor="white", label=None if steps else meaning)


def _finish(axes: Axes, name: str) -> None:
    axes.set_title(name, loc="left", fontweight="bold")
    axes.grid(color="#e3e6ea", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    if name == "Share":
        axes.set_ylim(0, 1.02)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="best", fontsize=7.5, frameon=True, framealpha=0.85, edgecolor="none")
