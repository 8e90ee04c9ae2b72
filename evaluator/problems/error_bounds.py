"""How far float32 may be off on the very inputs of a trial: what narrows a tolerance made for the longest sums.

A problem's tolerance admits chains of thousands of additions. A kernel that keeps 16 bits where 24 are asked for errs
by 2^-18 of each term, which is inside that tolerance; but it is far outside of what a hundred additions explain. So
each oracle states what the sums at hand explain, by how many of their terms count, and every ordinary input tells a
lower precision: there is no special input left for a kernel to recognise.

A term counts where it exceeds `NEGLIGIBLE` times the largest of its sum. The others may be lost altogether when they
are added to a larger partial sum (rounding to nearest moves it by at most the smaller operand), so their 1-norm is
admitted beside the roundings of those that count. That holds in every order and for every tree of additions.
"""

import math
from typing import Final

from evaluator.problems.arrays import Array, is_on_host, namespace

EPSILON: Final = 2.0**-24
"""Largest relative error of one float32 rounding to nearest."""

NEGLIGIBLE: Final = 2.0**-28
"""Terms below this share of the largest cannot round it, alone or by the dozen; larger ones count as additions."""

_SCAN_ROUNDINGS: Final = 12
"""Additions that an element passes in a scan of a chunk: ten over 1,024 threads, one to what is before, one back."""

_WORTH_IT: Final = 4
"""Bounds for rows of a product take one more product: only where at most one term in so many counts."""


def random_walk(additions: Array, extra: float) -> Array:
    """The share of a sum's 2-norm that `additions` of independent terms explain, and `extra` roundings besides.

    Partial sums of terms of both signs stay near the 2-norm, and each rounds by up to 2**-24 of itself: about
    0.3 * sqrt(additions) in all for one accumulator, less for a tree. The factor 4 is fourteen times that.
    """
    return (4.0 * additions**0.5 + extra) * EPSILON


def one_sign(additions: Array, extra: float) -> Array:
    """The share of a sum of terms of one sign: roundings of equal terms may all go one way, by half their most."""
    return (additions / 2.0 + extra) * EPSILON


def counting(magnitudes: Array, negligible: float = NEGLIGIBLE) -> tuple[Array, Array]:
    """How many of `magnitudes` count along the last axis, as float64, and which do not, in the shape given."""
    xp = namespace(magnitudes)
    lost = magnitudes <= negligible * xp.max(magnitudes, axis=-1, keepdims=True)
    count = magnitudes.shape[-1] - xp.sum(xp.astype(lost, xp.float64), axis=-1)
    return xp.clip(count, 1.0, None), lost


def of_sums(terms: Array, scale: Array, extra: float) -> Array | float:
    """For sums of `terms` along the last axis, whose 2-norms are `scale`."""
    xp = namespace(terms, scale)
    magnitudes = xp.abs(terms)
    most = random_walk(terms.shape[-1], extra)
    if _all_count(magnitudes):
        return most
    count, lost = counting(magnitudes)
    rest = xp.sum(xp.where(lost, magnitudes, 0.0), axis=-1)
    return xp.clip(random_walk(count, extra) + _share(rest, scale), None, most)


def of_products(left: Array, right: Array, scale: Array, extra: float) -> Array | float:
    """For the product of `left`[..., m, k] and `right`[..., k, n], whose terms have the 2-norms `scale`[..., m, n].

    Which terms count is told by the rows of `left` alone.
    """
    xp = namespace(left, right, scale)
    length = left.shape[-1]
    most = random_walk(length, extra)
    magnitudes = xp.abs(left)
    if _all_count(magnitudes):
        return most
    count, lost = counting(magnitudes)
    few = count * _WORTH_IT <= length
    if is_on_host(few) and not few.any():
        return most
    rest = xp.where(lost & few[..., None], magnitudes, 0.0) @ xp.abs(right)
    narrow = random_walk(count, extra)[..., None] + _share(rest, scale)
    return xp.clip(xp.where(few[..., None], narrow, most), None, most)


def of_prefixes(terms: Array, scale: Array, extra: float) -> Array:
    """For the sums of terms[0] to terms[i] for each i; from the largest term on by what counts beside it."""
    xp = namespace(terms, scale)
    magnitudes = xp.abs(terms)
    every = xp.cumulative_sum(xp.ones_like(magnitudes))
    most = random_walk(every, extra)
    lost = magnitudes <= NEGLIGIBLE * xp.max(magnitudes)
    if is_on_host(lost) and not lost.any():
        return most
    rest = xp.cumulative_sum(xp.where(lost, magnitudes, 0.0))
    count = every - xp.cumulative_sum(xp.astype(lost, xp.float64))
    narrow = random_walk(xp.clip(count, 1.0, None), extra) + _share(rest, scale)
    return xp.where(every > xp.argmax(magnitudes), xp.minimum(narrow, most), most)


def of_subtraction(sums: Array, scale: Array, relative: Array) -> Array:
    """What scans add to an error of `relative` * `scale` that take a chunk's own sum away from one that includes it.

    "Before = up to and including - own" is how threads, warps and blocks often get what comes before them. It passes
    through sums of later elements, and keeps their roundings where they are larger than all that came before. `sums`
    are the largest of those, for each element as far as such a chunk reaches (see scan.py).
    """
    xp = namespace(sums, scale, relative)
    return xp.clip(_SCAN_ROUNDINGS * EPSILON * sums - relative * scale, 0.0, None)


def _all_count(magnitudes: Array) -> bool:
    """Whether all surely count, in every row. On a GPU that is not asked: the answer would have to be waited for."""
    return is_on_host(magnitudes) and bool(magnitudes.min() > NEGLIGIBLE * magnitudes.max())


def _share(rest: Array, scale: Array) -> Array:
    """Rest / scale, infinite where there is no scale: that leaves the wider bound."""
    xp = namespace(rest, scale)
    return xp.where(scale > 0, rest / xp.where(scale > 0, scale, 1.0), math.inf)
