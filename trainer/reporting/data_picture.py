"""A data set as one picture: how its kernels end, problem by problem or family by family, and how fast pairs are."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from trainer.data.graded import DataCard
from trainer.errors import ConfigurationError

try:
    import matplotlib as mpl
    from matplotlib.figure import Figure
except ImportError as error:
    raise ConfigurationError(
        f"The picture cannot be drawn: {error}.", "Install what draws it: pip install 'assay[curves]'"
    ) from error

_WIDTH_IN: Final = 4.2
_BAR_IN: Final = 0.17
_PANEL_IN: Final = 2.0
_DPI: Final = 200
_COLOURS: Final = {
    "passed": "#1b7f4b",
    "incorrect": "#c2540a",
    "runtime_error": "#8e3b8a",
    "compile_error": "#5b6470",
    "invalid_submission": "#a9b1ba",
}
_OTHER: Final = "#d9b310"


def draw_data(
    card: DataCard, families: Mapping[str, str], held_out: Sequence[str], factors: Sequence[float], path: Path
) -> None:
    """Draw a data set into `path` (PNG, SVG or PDF, by its ending).

    `families`: by problem, those of a family in one bar. `held_out`: families whose names are marked. `factors`: of
    pairs of right kernels. Raises ValueError where there is nothing to draw.
    """
    counts: dict[str, Counter[str]] = {}
    for problem, ended in card.problems.items():
        counts.setdefault(families.get(problem, problem), Counter()).update(ended)
    if not counts:
        raise ValueError("there are no kernels to draw")
    names = sorted(counts, reverse=True)
    statuses = [*_COLOURS, *sorted({status for one in counts.values() for status in one} - set(_COLOURS))]
    bars_in = _BAR_IN * len(names) + 1.3
    with mpl.rc_context({"font.size": 7, "axes.titlesize": 9, "svg.fonttype": "none", "svg.hashsalt": "assay"}):
        heights = [bars_in, _PANEL_IN] if factors else [bars_in]
        figure = Figure(figsize=(_WIDTH_IN, sum(heights)), dpi=_DPI, layout="constrained")
        panels = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
        axes, left = panels[0], [0] * len(names)
        for status in statuses:
            widths = [counts[name][status] for name in names]
            if any(widths):
                axes.barh(names, widths, left=left, color=_COLOURS.get(status, _OTHER), label=status)
                left = [one + width for one, width in zip(left, widths, strict=True)]
        axes.set_yticks(range(len(names)), [f"{name} *" if name in held_out else name for name in names])
        axes.set_title(f"{card.kernels} kernels; * held out", loc="left", fontweight="bold")
        figure.legend(loc="outside lower center", ncols=3, fontsize=6.5, frameon=False)
        axes.margins(y=0.01)
        if factors:
            axes = panels[1]
            axes.hist(
                [min(one, 10.0) for one in factors], bins=[1 + 0.25 * step for step in range(37)], color="#0b62a4"
            )
            axes.set_title("Pairs of right kernels", loc="left", fontweight="bold")
            axes.set_xlabel("times as fast; the last bar is 10 and above")
            axes.set_xlim(1, 10)
        for one in panels:
            one.grid(color="#e3e6ea", linewidth=0.6, axis="x")
            one.set_axisbelow(True)
            one.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else {})
