"""Sizes at the edges where kernels break, drawn so that nobody knows them.

What breaks there: launches of more than 65,535 blocks in y or z, block and column indices of 16 bits, second passes
over 1,024 partial results, grids and shared arrays of a fixed size, indices that pass through a float (up to 2^24).
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import numpy as np

from evaluator.problems.problem import Sizes

Extent: TypeAlias = Callable[[np.random.Generator], int]
"""Draws one size."""

SPREAD: Final = 64
"""A size is drawn from the 64th part of its edge above it: few enough to stay at the edge, too many to foresee."""
LEAST_SPREAD: Final = 16
_STEPS: Final = (1, 1, 4, 4)
"""What is read by vectors has cases for odd numbers of them, and few sizes are multiples of four by chance."""

COLUMN_EDGES: Final = (1 << 10, 1 << 11, 1 << 12, 1 << 13, 3 << 12, 1 << 14, 1 << 15)
"""Where an array in shared memory of a fixed length, 48 KiB of floats (3 << 12) and an index of 16 bits end."""
BLOCKS_IN_Y: Final = 65_535
"""The most that a grid may have in y and in z."""


def above(*edges: int, step: int = 1) -> Extent:
    """Just above one of `edges`, at a multiple of `step` from it, every second time of four times that."""

    def draw(generator: np.random.Generator) -> int:
        edge = int(generator.choice(edges))
        by = step * int(generator.choice(_STEPS))
        return edge + by * int(generator.integers(1, max(1, (reach(edge) - edge) // by), endpoint=True))

    return draw


def reach(edge: int) -> int:
    """The largest size that `above(edge)` draws: where a problem's range ends, so that its end is always tried."""
    return edge + max(LEAST_SPREAD, edge // SPREAD)


def between(least: int, most: int) -> Extent:
    """Any size from `least` to `most`, both included."""
    return lambda generator: int(generator.integers(least, most, endpoint=True))


def odd(extent: Extent) -> Extent:
    """What `extent` draws, or one more where that is even."""
    return lambda generator: extent(generator) | 1


def last(most: int) -> Extent:
    """An odd size in the last 64th of what a range admits, or once in four times `most` itself.

    Odd, since counters in a float stay right beyond 2^24 as long as they grow by even numbers.
    """
    return lambda generator: (
        most if generator.integers(4) == 0 else (most - 1 - int(generator.integers(most // SPREAD))) | 1
    )


def edge_sizes(*draws: Mapping[str, Extent]) -> Callable[[np.random.Generator], tuple[Sizes, ...]]:
    """One set of sizes for each of `draws`."""

    def draw(generator: np.random.Generator) -> tuple[Sizes, ...]:
        return tuple({name: extent(generator) for name, extent in extents.items()} for extents in draws)

    return draw


LAST_FLAT: Final = 17 << 20
"""Elements: beyond 2^24, from where on not every index is a float."""
FLAT_EDGES: Final = edge_sizes(*({"n": above(1 << 16)},) * 3, {"n": above(1 << 18, 1 << 20)}, {"n": last(LAST_FLAT)})
"""For work on each of n elements: grids of a fixed size, block indices of 16 bits, indices in a float end here."""

MOST_COLUMNS: Final = 40_000
"""A row of floats still fits in the 163 KiB of shared memory of an A100's block."""
LAST_COLUMNS: Final = last(MOST_COLUMNS)
MOST_ROWS: Final[Sizes] = {"rows": reach(BLOCKS_IN_Y), "cols": MOST_COLUMNS}

FOR_A_MIXTURE: Final = between(11, 16)
"""Rows: two in three of a problem's distributions have one, so that three edges leave out hardly any."""

_ROW_DRAWS: Final[tuple[Mapping[str, Extent], ...]] = (
    # The most expensive by far: many kernels have a block of 256 threads for each row, however short it is.
    {"rows": above(BLOCKS_IN_Y), "cols": between(1, 4)},
    *({"rows": FOR_A_MIXTURE, "cols": above(edge)} for edge in COLUMN_EDGES),
    {"rows": FOR_A_MIXTURE, "cols": above(1 << 15, step=4)},  # where rows are read by vectors of four
    {"rows": FOR_A_MIXTURE, "cols": LAST_COLUMNS},
)
ROW_EDGES: Final = edge_sizes(*_ROW_DRAWS)
"""For functions of rows, where each is `cols` long."""
MATRIX_EDGES: Final = edge_sizes(*_ROW_DRAWS, {"rows": above(1 << 12), "cols": above(1 << 12)})
"""For functions of the elements of a matrix, which kernels also see as one vector: of more than 2^24 elements."""

MOST_PRODUCT: Final[Sizes] = {"m": reach(BLOCKS_IN_Y), "n": reach(BLOCKS_IN_Y), "k": reach(1 << 16)}
"""For products of matrices."""

PRODUCT_EDGES: Final = edge_sizes(
    {"m": above(BLOCKS_IN_Y), "n": between(1, 3), "k": between(1, 5)},
    {"m": between(1, 3), "n": above(BLOCKS_IN_Y), "k": between(1, 5)},
    {"m": above(1 << 11, 1 << 12), "n": between(17, 40), "k": between(1, 3)},
    {"m": between(17, 40), "n": above(1 << 11, 1 << 12), "k": between(1, 3)},
    {"m": above(1 << 9), "n": above(1 << 9), "k": between(1, 3)},
    {"m": FOR_A_MIXTURE, "n": between(1, 5), "k": above(1 << 11, 1 << 12, 1 << 13)},
    {"m": between(6, 9), "n": between(1, 2), "k": above(1 << 16)},
    {"m": above(1 << 12), "n": above(1 << 12), "k": between(1, 3)},  # more tiles than the timed size has
    # Two at once, since a plan of several launches has no trial at the timed size.
    {"m": above(1 << 10, 1 << 11), "n": between(1, 3), "k": above(1 << 10)},
    {"m": between(1, 3), "n": above(1 << 10), "k": above(1 << 10, 1 << 11)},
)

MOST_MATVEC: Final[Sizes] = {"m": reach(1 << 17), "k": MOST_COLUMNS}
"""For matrix times vector: as for rows, the vector fits in shared memory."""

MATVEC_EDGES: Final = edge_sizes(
    {"m": above(BLOCKS_IN_Y), "k": between(1, 5)},
    {"m": above(1 << 17), "k": between(1, 3)},
    {"m": above(1 << 13), "k": between(33, 65)},
    *({"m": FOR_A_MIXTURE, "k": above(edge)} for edge in COLUMN_EDGES),
    {"m": FOR_A_MIXTURE, "k": above(1 << 15, step=4)},
    {"m": FOR_A_MIXTURE, "k": LAST_COLUMNS},
)
