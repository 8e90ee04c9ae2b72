"""Effects with their intervals as one picture."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, StrMethodFormatter

WAYS = (("drawn", "#0b62a4", -0.12), ("greedy", "#c2540a", 0.12))
"""Sets of prompts: name, colour, and how far from the middle of a row."""
TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Ratios that are written out: powers of ten alone leave most pictures with one number."""


_RINGS = ";\nrings are single runs"


def draw_effects(figures: Mapping[str, float], names: Sequence[str], path: Path) -> None:
    """Draw what each of these has over `base` in speed, `NAME_over_base_SET_speed`, into an SVG or PNG. Where there
    are several runs of a kind (`NAME-SEED_over_base-SEED_SET_speed`), each is a ring of its own, also those of `base`
    over its first run.
    """
    rings = {way: _single_runs(figures, way) for way, _, _ in WAYS}
    shown = [name for name in names if any(f"{name}_over_base_{way}_speed" in figures for way, _, _ in WAYS)]
    if any("base" in each for each in rings.values()):
        shown.insert(0, "base")
    with mpl.rc_context({"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "assay"}):
        figure = Figure(figsize=(7, 1.2 + 0.4 * len(shown)), layout="constrained")
        axes = figure.subplots()
        axes.axvline(1, color="#5b6470", linewidth=0.8)
        for way, colour, away in WAYS:
            label: str | None = way
            for row, name in enumerate(shown):
                word = f"{name}_over_base_{way}_speed"
                if alone := rings[way].get(name):
                    axes.plot(alone, [row + away] * len(alone), "o", markersize=6, mfc="none", color=colour)
                if word not in figures:
                    continue
                middle = figures[word]
                low, high = (figures.get(f"{word}_{end}", middle) for end in ("low", "high"))
                spread = [[middle - low], [high - middle]]
                axes.errorbar([middle], [row + away], xerr=spread, fmt="o", markersize=4, color=colour, label=label)
                label = None
        axes.set_yticks(
            range(len(shown)), ["base, another seed" if name == "base" else _said(name) for name in shown]
        )
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(TICKS))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        rings_said = _RINGS if any(rings.values()) else ""
        axes.set_xlabel(f"speed over naive, as a multiple of base's; 95 % intervals over prompts{rings_said}")
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside upper right", ncols=len(WAYS), fontsize=8, frameon=False)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else {})


def _said(name: str) -> str:
    return name.replace("_", " ")


def _single_runs(figures: Mapping[str, float], way: str) -> dict[str, list[float]]:
    """By kind, what each of its runs has over that of `base`."""
    found: dict[str, list[float]] = {}
    for word, value in figures.items():
        if match := re.fullmatch(rf"(\w+)-\d+_over_base-\d+_{way}_speed", word):
            found.setdefault(match[1], []).append(value)
    return found
