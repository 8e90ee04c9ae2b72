"""Freivalds' check of a matrix product in float64: is c = a·b, without computing a·b?

Both sides are multiplied by random vectors s of +1 and -1, and row i is judged by its residual
|(c·s)_i - (a·(b·s))_i| = |sum over j of e_ij * s_j|, where e = c - a·b. That takes O(rounds·(mk + kn + mn)) instead
of O(mkn). The signs are drawn after c is there, so c cannot depend on them.

What a row is allowed. If each |e_ij| <= tol_ij, the elementwise tolerance of the problem, Hoeffding's inequality puts
the residual below 7 * sqrt(sum over j of tol_ij^2), but with a probability of at most 2 * exp(-7^2 / 2) = 5e-11 for
each row and round. The sum needs no element: tol_ij = relative * scale_ij + absolute, scale_ij is the 2-norm of the
terms and the element, and sum over j of scale_ij^2 = (a^2 · (b^2 · 1))_i plus the squares of row i of a·b, which
those of c bound; 2-norms obey the triangle inequality. Added to it is the most that float64 can round in either
product.

What is found. Call a row's allowance A, and its error's 2-norm E.
- A row in which one element alone is wrong has the residual |e_ij| in every round: it is found if that exceeds A.
- Any element with |e_ij| > A is found in each round with a probability of at least 1/2, whatever the rest of the row
  is: of s_j = +1 and s_j = -1, one at least leaves a residual of |e_ij| or more. All rounds miss it with 2^-rounds.
- A row with E = r * A for an r > 1 is missed with a probability of at most (1 - (1 - 1 / r^2)^2 / 3)^rounds, by the
  Paley-Zygmund inequality, because the residual's square has the mean E^2 and a second moment of at most 3 E^4. With
  r >= 10 that is (1 - 0.99^2 / 3)^rounds, 3e-6 for the 32 rounds taken here; with r = 2 it is 1.5e-3.
- A row with E <= A is likely to pass, whatever its elements are: one element may be off by up to 7 * sqrt(n) of its
  tolerance. So this check finds what is skipped, misplaced or computed in a precision whose error is a multiple of 7
  tolerances; the element-by-element trials and the probes find the rest.
Source: R. Freivalds, Probabilistic machines can use less running time, IFIP Congress 1977.
"""

import math
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from evaluator.problems.arrays import Array, Rng, namespace
from evaluator.problems.generators import longer_sums
from evaluator.problems.problem import Arrays, Sizes, Sketch, Tolerance

ROUNDS: Final = 32
_DEVIATIONS: Final = 7.0
_BLOCK_ELEMENTS: Final = 1 << 22
"""Elements of a factor that are held in float64 at a time: 32 MiB."""
_TINY: Final = 2.0**-1022

Check = Callable[[Rng, Arrays, Arrays, Sizes, Tolerance], Sketch]


def product_check(left: str, right: str, output: str, chain: int) -> Check:
    """The check of output[m, n] = left[m, k] · right[k, n].

    The scale of an element counts the element itself beside its terms, as the oracles of products do, and more where
    there are more terms than `chain` (`longer_sums`).
    """

    def check(rng: Rng, inputs: Arrays, outputs: Arrays, sizes: Sizes, tolerance: Tolerance) -> Sketch:
        a, b, c = inputs[left], inputs[right], outputs[output]
        xp = namespace(a, b, c)
        inner, columns = b.shape
        relative = tolerance.relative * longer_sums(inner, chain)
        signs = rng.signs((columns, ROUNDS))
        b_signs, b_squares, b_sizes = _mapped(b, lambda rows: (rows @ signs, xp.sum(rows**2, axis=1), _sizes(rows)))
        product, squares, most = _mapped(a, lambda r: (r @ b_signs, r**2 @ b_squares, xp.abs(r) @ b_sizes))
        claimed, c_squares, c_sizes = _mapped(c, lambda rows: (rows @ signs, xp.sum(rows**2, axis=1), _sizes(rows)))

        scale = xp.sqrt(squares)
        absolute = tolerance.absolute * math.sqrt(columns)
        # The 2-norm of a row of a·b, at most: that of c, and what an honest c may differ by.
        value = (xp.sqrt(c_squares) + relative * scale + absolute) / (1.0 - relative)
        scale = xp.hypot(scale, value)
        allowed = _DEVIATIONS * (relative * scale + absolute)
        allowed = allowed + (inner + columns + 2) * 2.0**-53 * (2.0 * most + c_sizes)
        with np.errstate(all="ignore"):
            residual = xp.max(xp.abs(claimed - product), axis=1)
            # What is not finite is wrong, also where the allowance is not finite either.
            right_rows = xp.isfinite(residual) & (residual <= allowed)
            ratio = xp.where(residual == 0, 0.0, residual / xp.maximum(allowed, _TINY))
            ratio = xp.where(right_rows | (xp.isfinite(ratio) & (ratio > 1.0)), ratio, math.inf)
        worst = int(xp.argmax(ratio))
        return Sketch(output, bool(xp.all(right_rows)), float(ratio[worst]), worst)

    return check


def _sizes(rows: Array) -> Array:
    xp = namespace(rows)
    return xp.sum(xp.abs(rows), axis=1)


def _mapped(matrix: Array, compute: Callable[[Array], tuple[Array, ...]]) -> tuple[Array, ...]:
    """What `compute` gives for blocks of rows in float64, put together again along the rows."""
    parts = zip(*(compute(block) for block in _blocks(matrix)), strict=True)
    return tuple(namespace(matrix).concat(part) for part in parts)


def _blocks(matrix: Array) -> Iterator[Array]:
    xp, height = namespace(matrix), max(1, _BLOCK_ELEMENTS // matrix.shape[1])
    for first in range(0, matrix.shape[0], height):
        yield xp.astype(matrix[first : first + height, :], xp.float64)
