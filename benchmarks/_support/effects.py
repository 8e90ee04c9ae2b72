"""Effects with their intervals as one picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, StrMethodFormatter

WAYS = (("drawn", "#0b62a4", -0.12), ("greedy", "#c2540a", 0.12))
"""Sets of prompts: name, colour, and how far from the middle of a row."""
TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Ratios that are written out: powers of ten alone leave most pictures with one number."""


def draw_effects(figures: Mapping[str, float], names: Sequence[str], path: Path) -> None:
    """Draw what each of these has over `base` in speed, `NAME_over_base_SET_speed`, into an SVG or PNG."""
    shown = [name for name in names if any(f"{name}_over_base_{way}_speed" in figures for way, _, _ in WAYS)]
    with mpl.rc_context({"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "assay"}):
        figure = Figure(figsize=(7, 1.2 + 0.4 * len(shown)), layout="constrained")
        axes = figure.subplots()
        axes.axvline(1, color="#5b6470", linewidth=0.8)
        for way, colour, away in WAYS:
            label: str | None = way
            for row, name in enumerate(shown):
                word = f"{name}_over_base_{way}_speed"
                if word not in figures:
                    continue
                middle = figures[word]
                low, high = (figures.get(f"{word}_{end}", middle) for end in ("low", "high"))
                spread = [[middle - low], [high - middle]]
                axes.errorbar([middle], [row + away], xerr=spread, fmt="o", markersize=4, color=colour, label=label)
                label = None
        axes.set_yticks(range(len(shown)), [name.replace("_", " ") for name in shown])
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(TICKS))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("speed over naive, as a multiple of base's; 95 % intervals over prompts")
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside upper right", ncols=len(WAYS), fontsize=8, frameon=False)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else {})
