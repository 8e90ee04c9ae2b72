"""Inputs with structure, as real ones have it: scales, clusters, ties, sorted rows, extremes where tiles end.

Each is as large as standard normal values are, give or take three decades, and its sums stay near the 2-norm of their
terms: either signs are drawn, or all are one, and then the sum itself is in the norm.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from evaluator.problems.arrays import Array, Rng, Shape
from evaluator.problems.generators import Maker, distribution
from evaluator.problems.problem import Distribution, Tensor

FEW_MATTER: Final = "in each row 1, 2 or more elements that outweigh all others together, and need all 24 bits"

_TILES: Final = (16, 32, 64, 128, 256)
"""Lengths of tiles and blocks that kernels use."""
_WARP: Final = 32
_SORTED: Final = 1024
_NEGLIGIBLE: Final = 2.0**-32
"""The most that all elements that do not matter come to, next to one that does: a 256th of its last rounding."""


def _drawn(rng: Rng, *choices: int) -> int:
    return choices[int(rng.nearby().integers(0, len(choices) - 1, (1,))[0])]


def several_scales(rng: Rng, shape: Shape) -> Array:
    """Stretches of 1 to 64 elements along the last axis, each of its own scale in 1/64 to 64."""
    length = _drawn(rng, 1, 3, 8, 32, 64)
    stretches = -(-shape[-1] // length)
    scales = 2.0 ** rng.uniform(-6.0, 6.0, (*shape[:-1], stretches))
    return rng.normal(shape) * rng.xp.repeat(scales, length, axis=-1)[..., : shape[-1]]


def clusters(rng: Rng, shape: Shape) -> Array:
    """Values within a thousandth of one of five centres, or of its opposite: of one sign they would round alike."""
    centres = rng.normal((5,))
    return rng.signs(shape) * centres[rng.integers(0, 4, shape)] + 1e-3 * rng.normal(shape)


def ties(rng: Rng, shape: Shape) -> Array:
    """Few different values, of few bits, so that the largest is there many times."""
    return rng.signs(shape) * 0.25 * rng.integers(1, 4, shape)


def ordered(rng: Rng, shape: Shape) -> Array:
    """Rows of one sign, sorted, 1,024 at a time: rising ones and falling ones mixed.

    None is near zero, and no stretch is longer: a million would end with thousands alike, which one accumulator in
    float32 rounds in the same direction.
    """
    values = 0.5 + rng.xp.abs(rng.normal(shape))
    whole = shape[-1] // _SORTED
    if whole:  # all of them at once: to ask a device to sort one takes as long
        first = rng.xp.reshape(values[..., : whole * _SORTED], (*shape[:-1], whole, _SORTED))
        values[..., : whole * _SORTED] = rng.xp.reshape(rng.xp.sort(first, axis=-1), (*shape[:-1], whole * _SORTED))
    if shape[-1] % _SORTED:
        values[..., whole * _SORTED :] = rng.xp.sort(values[..., whole * _SORTED :], axis=-1)
    falls = rng.integers(0, 1, (*shape[:-1], 1)) == 1
    return rng.xp.where(falls, rng.xp.flip(values, axis=-1), values)


def signs_by_place(rng: Rng, shape: Shape) -> Array:
    """Normal values whose signs alternate along the last axis, after 3, 5 or 7 elements.

    No period divides a power of two: threads that add every 32nd element would else add those of one sign.
    """
    period = _drawn(rng, 3, 5, 7)
    negative = rng.arange(shape[-1]) // period % 2 == 1
    values = rng.xp.abs(rng.normal(shape))
    return rng.xp.where(negative, -values, values)


def unlike_first_warp(factor: float) -> Maker:
    """Normal values, those of the first 32 places along the last axis times `factor` or over it."""

    def make(rng: Rng, shape: Shape) -> Array:
        scale = factor if _drawn(rng, 0, 1) else 1.0 / factor
        values = rng.normal(shape)
        values[..., :_WARP] *= scale
        return values

    return make


def extreme_ends(factor: float) -> Maker:
    """Normal values, times `factor` where a tile of 16, 32 … 256 begins or ends along the last axis."""

    def make(rng: Rng, shape: Shape) -> Array:
        tile = _drawn(rng, *_TILES)
        values = rng.normal(shape)
        values[..., ::tile] *= factor
        values[..., tile - 1 :: tile] *= factor
        return values

    return make


def negligible(rng: Rng, shape: Shape, axis: int = -1) -> Array:
    """Values of both signs whose 1-norm along `axis` is below 2**-32: normal ones, of which none exceeds 8."""
    return rng.normal(shape) * (_NEGLIGIBLE / (8 * shape[axis]))


def _one_place(rng: Rng, shape: Shape, axis: int) -> Array:
    """True at one random place along `axis` for each position of the other axes."""
    length = shape[axis]
    chosen = rng.integers(0, length - 1, _with_extent(shape, axis, 1))
    return rng.xp.reshape(rng.arange(length), _with_extent((1,) * len(shape), axis, length)) == chosen


def dominated(values: Maker, axis: int = -1) -> Maker:
    """One element of `values` at a random place along `axis`; next to it all others come to nothing in float32.

    So a sum is exact to a few roundings in any order, though no element is zero. `values` are at least 1.
    """

    def make(rng: Rng, shape: Shape) -> Array:
        return rng.xp.where(_one_place(rng, shape, axis), values(rng, shape), negligible(rng, shape, axis))

    return make


def _with_extent(shape: Shape, axis: int, extent: int) -> Shape:
    at = axis % len(shape)
    return (*shape[:at], extent, *shape[at + 1 :])


def few_matter(values: Maker) -> Maker:
    """Rows of which some elements are of `values`, 1 or all or any number between, and the rest negligible.

    How many differs from row to row, evenly in the logarithm, so that a row's tolerance is anything from a few
    roundings to that of a row of ordinary values: nothing tells a probe from an ordinary row.
    """

    def make(rng: Rng, shape: Shape) -> Array:
        rows = math.prod(shape[:-1])
        turns = rng.xp.argsort(rng.uniform(0.0, 1.0, (rows,)))  # of as many equal parts each row has one
        evenly = (turns + rng.uniform(0.0, 1.0, (rows,))) / rows
        share = float(shape[-1]) ** -rng.xp.reshape(evenly, (*shape[:-1], 1))
        matters = _one_place(rng, shape, -1) | (rng.uniform(0.0, 1.0, shape) < share)
        return rng.xp.where(matters, values(rng, shape), negligible(rng, shape))

    return make


def few_high(spread: float = 3.0) -> Maker:
    """Rows of exponents: as `few_matter`, of powers of e. The rest lies 25 and more below, and below its number."""

    def make(rng: Rng, shape: Shape) -> Array:
        marks = few_matter(lambda rng, shape: rng.full(shape, 1.0))(rng, shape)
        low = rng.uniform(-45.0, -25.0, shape) - math.log(shape[-1])
        around = rng.uniform(-spread, spread, (*shape[:-1], 1))
        return rng.xp.where(marks == 1.0, rng.uniform(-spread, spread, shape), low) + around

    return make


_STRETCH: Final = 1024
"""The length, along the last axis, of what has one special part: what a block of threads takes, and a look covers."""
_ROWS_OF_TILES: Final = 16
"""Tiles begin at its multiples."""
_COLUMN_HEAD: Final = 64
"""How much of a matrix's first column is like its first element: two warps."""
_EXACT_SUM: Final = 64.0
"""The most that equal elements of a stretch come to: more would leave what is added later with larger roundings."""
_VANISHING: Final = 2.0**-63
"""Its square is the smallest normal float32; of ordinary values over it a hundred squares exceed the largest."""
_ENDS, _MIDDLE, _APART, _ALL, _NOTHING = range(5)
_ZERO, _EQUAL, _ALTERNATING, _TINY, _LARGE = range(5)


def special_parts(zeros: bool, factor: float) -> Maker:
    """Normal values of which each stretch of 1,024 along the last axis has a special part of its own.

    The part is both ends of the stretch, all but its ends, places 0, 15 and 31 of every 32, all of it or nothing. In
    it all elements are zero, equal or vanishing. Or the whole stretch alternates and adds up to 0, or few elements
    (those of every 32, or the first and the last one alone) are `factor` times larger than ordinary ones. So a
    kernel that looks at some elements, whichever, and takes the others to be alike is wrong somewhere.

    Those that one look would be at for everything, the ends of the very first stretch and the first column of a
    matrix, are zero or, without `zeros`, equal.
    """

    def make(rng: Rng, shape: Shape) -> Array:
        xp, (rows, columns) = rng.xp, (math.prod(shape[:-1]), shape[-1])
        length = min(columns, _STRETCH)
        parts, kinds = _drawn_parts(rng.nearby(), rows, -(-columns // length), length, zeros, factor)
        # On a device a hundred operations on so little would take ten times as long as what is done with every
        # element.
        parts, kinds = rng.taken(parts, kinds)
        (apart, edge), patterns = rng.kept(_places_of_stretch, length), rng.kept(_patterns, length)[0]
        apart_below, ends_below, middle_from, filler = xp.unstack(parts)
        special = (apart < apart_below) | (edge < ends_below) | (edge >= middle_from)
        fillers = patterns[kinds] * filler
        values = xp.where(special, fillers, rng.normal((*fillers.shape[:-1], length)))
        values = xp.reshape(values, (rows, -1))[:, :columns]
        if len(shape) > 1:
            # A new value: torch refuses to write over memory what is read from there.
            values[: min(_COLUMN_HEAD, max(1, rows * 3 // 4)), 0] = 1.0 * values[0, 0]
        return xp.reshape(values, shape)

    return make


_PLAIN, _BY_PLACE, _BY_WARP = range(3)


@functools.cache
def _patterns(length: int) -> tuple[Array]:
    """By _PLAIN, _BY_PLACE, _BY_WARP: what a stretch's filler is times at each place, float64[3, length]."""
    place = np.arange(length)
    return (np.stack([np.ones(length), 1.0 - 2.0 * (place % 2), 1.0 - 2.0 * (place // _WARP % 2)]),)


@functools.cache
def _places_of_stretch(length: int) -> tuple[Array, Array]:
    """0 where a place is 0, 15 or 31 of every 32, else 1; and how far the nearest end is: int64[length] each."""
    place = np.arange(length)
    apart = (place % _WARP == 0) | (place % _WARP == _WARP // 2 - 1) | (place % _WARP == _WARP - 1)
    return np.where(apart, 0, 1), np.minimum(place, length - 1 - place)


def _drawn_parts(near: Rng, rows: int, count: int, length: int, zeros: bool, factor: float) -> tuple[Array, Array]:
    """The special part of each stretch, `count` of them a row, drawn on the host.

    float64[4, rows, count, 1]: apart places below the first number are special, those nearer to an end than the
    second, those not nearer to one than the third; and the fourth is what they are filled with. With it
    int64[rows, count]: the number of the pattern that this is times.
    """
    stretches = (rows, count, 1)
    part, content = near.integers(_ENDS, _NOTHING, stretches), near.integers(_ZERO, _LARGE, stretches)
    width = np.clip(2 ** near.integers(0, 7, stretches), None, max(1, length // 4))
    tiles, chosen = slice(_ROWS_OF_TILES, None, _ROWS_OF_TILES), near.integers(0, 1, stretches) == 0
    part[tiles] = np.where(chosen[tiles], _ALL, part[tiles])  # a tile whose first row says nothing of the others
    content[tiles] = np.where(chosen[tiles] & (width[tiles] > 2), _ZERO, content[tiles])
    part = np.where(content == _ALTERNATING, _ALL, part)
    alone = (content == _LARGE) & (part % 2 == 1)  # else those of every 32
    part = np.where((content == _LARGE) & ~alone, _APART, part)
    part, width = np.where(alone, _ENDS, part), np.where(alone, 1, width)
    part[0, 0], content[0, 0], width[0, 0] = _ENDS, _ZERO if zeros else _EQUAL, max(1, (length - 1) // 2)

    at_ends, apart = np.minimum(2 * width, length), length - int(_places_of_stretch(length)[0].sum())
    ends, middle, places = part == _ENDS, part == _MIDDLE, part == _APART
    special = np.where(ends, at_ends, np.where(middle, length - at_ends, np.where(places, apart, length)))
    equal = 2.0 ** np.clip(np.floor(np.log2(_EXACT_SUM / np.clip(special, 1, None))), None, 1.0)
    alternating, larger = content == _ALTERNATING, content == _LARGE
    filler = np.where(alternating, 1.0, np.where(larger, factor, np.where(content == _TINY, _VANISHING, equal)))
    filler = np.where(content == _ZERO, 0.0, filler * near.signs(stretches))
    ends_below = np.where(ends, width, np.where(part == _ALL, length, 0))
    pattern = np.where(alternating, _BY_PLACE, np.where(larger, _BY_WARP, _PLAIN))
    return np.stack([places, ends_below, np.where(middle, width, length), filler]), pattern[..., 0]


def structured_distributions(
    tensors: Sequence[Tensor],
    factor: float = 1e3,
    own: Mapping[str, Maker] | None = None,
    part_factor: float | None = None,
) -> tuple[Distribution, ...]:
    """Ordinary values in special arrangements, of roles `structured` and `partial`; `own` keeps tensors out of them.

    `factor`: how much larger the large ones are; `part_factor`: those of special parts, where that is another.
    """
    makers: tuple[tuple[str, str, Maker], ...] = (
        ("several_scales", "scales that differ from stretch to stretch", several_scales),
        ("clusters", "values near five centres", clusters),
        ("ties", "eight different values", ties),
        ("ordered", "rows of one sign that rise or fall", ordered),
        ("signs_by_place", "signs that alternate along a row", signs_by_place),
        ("first_warp", f"the first 32 of a row {factor:g} times larger or smaller", unlike_first_warp(factor)),
        ("tile_ends", f"the ends of tiles of 16 to 256 times {factor:g}", extreme_ends(factor)),
    )
    parts: tuple[tuple[str, str, bool], ...] = (
        ("zero_parts", "parts of rows that are zero, equal, tiny or large; the first is zero", True),
        ("equal_parts", "parts of rows that are zero, equal, tiny or large; the first has equal values", False),
    )
    return (
        *(distribution(name, reason, tensors, maker, own, role="structured") for name, reason, maker in makers),
        *(
            distribution(name, reason, tensors, special_parts(zeros, part_factor or factor), own, role="partial")
            for name, reason, zeros in parts
        ),
    )
