"""Where the wrong elements of an output lie, as a picture and in words."""

from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from common.contract import Mismatch
from evaluator.report.svg import draw

HEAT_STEPS: Final = (0.0, 0.1, 0.25, 0.5, 0.75)
"""Shares of wrong elements above which a heat map's next shade begins; at or below the first is "none"."""


def shade(share: float) -> int:
    """Which of the heat map's shades a share of wrong elements has: 0 (none) to 5."""
    return sum(share > step for step in HEAT_STEPS)


@dataclass(frozen=True)
class HeatMap:
    """A heat map's geometry, in the units of its picture."""

    mismatch: Mismatch

    @property
    def picture(self) -> Markup:
        """Shades of what is wrong over the shape of the output."""
        words = f"Heat map of the wrong elements of {self.mismatch.output}: {self.mismatch.pattern}"
        return draw("heat_map", words, heat=self)

    @property
    def cells(self) -> list[tuple[float, float, int, str]]:
        """x, y, shade and words of every cell."""
        return [
            (x * self.cell_width, y * self.cell_height, shade(share), self._words(y, x, share))
            for y, row in enumerate(self.mismatch.heat)
            for x, share in enumerate(row)
        ]

    @property
    def rows(self) -> int:
        return len(self.mismatch.heat)

    @property
    def columns(self) -> int:
        return max(map(len, self.mismatch.heat))

    @property
    def cell_width(self) -> float:
        return 480 / self.columns

    @property
    def cell_height(self) -> float:
        # Square cells where there are many rows, a band one can see where there are few.
        return min(480 / self.columns, 320 / self.rows) if self.rows > 4 else 32.0

    @property
    def height(self) -> float:
        return self.rows * self.cell_height

    @property
    def extents(self) -> tuple[int, int] | None:
        """Rows and columns of the output, leading axes flattened into rows; None when the grid is not that."""
        shape = self.mismatch.shape
        if not shape:
            return None
        if len(shape) == 1:
            return (1, shape[0]) if self.rows == 1 else None
        rows = 1
        for extent in shape[:-1]:
            rows *= extent
        return rows, shape[-1]

    @property
    def axes(self) -> tuple[str, str]:
        """What the vertical and the horizontal axis count."""
        dimensions = len(self.mismatch.shape) or len(self.mismatch.index)
        if dimensions <= 1:
            return ("", "element") if self.rows == 1 else ("from first to last element", "element within the row")
        return ("row", "column") if dimensions == 2 else ("all axes but the last, flattened", "last axis")

    @property
    def worst(self) -> tuple[float, float] | None:
        """Centre of the cell of the worst element."""
        if self.extents is None or len(self.mismatch.index) != len(self.mismatch.shape):
            return None
        row = 0
        for position, extent in zip(self.mismatch.index[:-1], self.mismatch.shape[:-1], strict=True):
            row = row * extent + position
        y = min(row * self.rows // max(self.extents[0], 1), self.rows - 1)
        x = min(self.mismatch.index[-1] * self.columns // max(self.extents[1], 1), self.columns - 1)
        return (x + 0.5) * self.cell_width, (y + 0.5) * self.cell_height

    def _words(self, y: int, x: int, share: float) -> str:
        if self.extents is None:
            return f"cell {y}, {x}: {share:.0%} wrong"
        rows, columns = (
            f"{i * extent // cells} to {max((i + 1) * extent // cells - 1, i * extent // cells)}"
            for i, extent, cells in ((y, self.extents[0], self.rows), (x, self.extents[1], self.columns))
        )
        place = f"elements {columns}" if self.extents[0] == 1 else f"rows {rows}, columns {columns}"
        return f"{place}: {share:.0%} wrong"

    @property
    def legend(self) -> list[tuple[int, str]]:
        """Shade and the share that it stands for."""
        edges = [f"{edge:.0%}" for edge in HEAT_STEPS[1:]] + ["100%"]
        return [(0, "none"), *((i, f"up to {edge}") for i, edge in enumerate(edges, 1))]
