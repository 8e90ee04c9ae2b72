"""How much an expected answer tells: one that is the same nearly everywhere lets wrong kernels pass."""

from typing import Final

import numpy as np

from evaluator.problems.arrays import to_numpy
from evaluator.problems.problem import Expected, Tolerance

_LEAST_ELEMENTS: Final = 32
"""Fewer may well be equal: whether they change with the inputs is what the linter looks at."""
_SAMPLED: Final = 4096
"""Elements that are looked at: shares of a hundredth are met 41 times, in a tenth of a millisecond."""
HARDLY: Final = 0.01
"""An answer of which fewer elements differ hardly tells: of a tile of 16 by 16 that is wrong two or three show it."""


def telling_share(expected: Expected, tolerance: Tolerance) -> float | None:
    """The share of the elements that one number for all would get wrong; None of fewer than 32 elements.

    Of more than half that are equal the median is one, so it stands for the most frequent number, roundings and
    all. At most 4,096 elements are looked at, always at the same places: no secret is drawn for them.
    """
    size = int(np.prod(tuple(expected.value.shape), dtype=np.int64))
    if size < _LEAST_ELEMENTS:
        return None
    if size > _SAMPLED:
        expected = expected.at(np.random.default_rng(0).integers(0, size, _SAMPLED))
    value = to_numpy(expected.value).reshape(-1)
    with np.errstate(all="ignore"):
        allowed = tolerance.allowed(expected)
        allowed = allowed if isinstance(allowed, float | int) else to_numpy(allowed)
        allowed = np.broadcast_to(allowed, tuple(expected.value.shape)).reshape(-1)
        middle = np.partition(value, value.size // 2)[value.size // 2]
        return float(np.mean(~(np.abs(value - middle) <= allowed)))
