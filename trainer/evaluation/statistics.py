"""What the numbers of an evaluation can say: shares, medians and differences with 95 % intervals, and exact tests.

Answers to one task are alike, so they are no independent draws: what is resampled, or counted as one, is a *cluster*,
a task with all its answers or a problem with all its tasks. All functions are pure; the same numbers and seed give
the same interval.
"""

import math
from collections.abc import Sequence
from math import comb, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

RESAMPLES: Final = 10_000
FEWEST_CLUSTERS: Final = 3
"""Fewer say nothing about how much clusters differ."""
_LEVEL: Final = 0.95
_Z: Final = 1.959963984540054
"""Of the normal distribution: 95 % lie within so many standard deviations."""
_DRAWN_AT_ONCE: Final = 1 << 21
"""Indices that are held in memory."""


def pass_at_k(answers: int, right: int, k: int) -> float:
    """The chance that of `k` answers, drawn from these without putting back, one is right at least: the unbiased
    estimator 1 - C(n - c, k) / C(n, k) (Chen et al. 2021, "Evaluating large language models trained on code",
    equation 1). Raises ValueError for k above the answers, and for counts that cannot be.
    """
    if not (0 <= right <= answers and 1 <= k <= answers):
        raise ValueError(f"pass@{k} of {answers} answers, {right} of them right, is no chance")
    return 1 - comb(answers - right, k) / comb(answers, k)


def expected_first_pass(answers: int, right: int) -> float | None:
    """The mean number, from 1, of the first right answer over all orders of these: (n + 1) / (c + 1), the negative
    hypergeometric distribution's mean. None where none is right. Raises ValueError for counts that cannot be.
    """
    if not 0 <= right <= answers:
        raise ValueError(f"{right} of {answers} answers cannot be right")
    return (answers + 1) / (right + 1) if right else None


def wilson(successes: float, of: float) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927). Raises ValueError for a share of nothing."""
    if not 0 <= successes <= of or not of > 0:
        raise ValueError(f"{successes} of {of} is no share")
    share, z2 = successes / of, _Z**2
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = _Z * sqrt(share * (1 - share) / of + z2 / (4 * of**2)) / (1 + z2 / of)
    # At the ends both terms are equal, and their difference is what rounding left.
    return max(0.0, middle - half) if successes else 0.0, min(1.0, middle + half) if successes < of else 1.0


def share_interval(
    sums: Sequence[float], counts: Sequence[float], answers: float | None = None
) -> tuple[float, float]:
    """The 95 % interval of a share `sum(sums) / sum(counts)`, by cluster: what is counted, each at most 1, and of how
    many; `answers`: how many draws these stand for, where one that is counted is the mean of several.

    Wilson's, of as many independent answers as say as much: n over the design effect, which is the variance by
    clusters over that of n independent answers (Korn and Graubard 1998; Franco et al. 2019, section 2.3), and at most
    as many as there are. Where all clusters agree it is of so many answers as there are clusters. Clusters of one
    answer give Wilson's own. Raises ValueError for no answer.
    """
    summed, counted = _clusters(sums, counts)
    of, clusters = float(counted.sum()), len(counted)
    share = min(float(summed.sum()) / of, 1.0)
    binomial = share * (1 - share)
    if clusters == of and set(summed.tolist()) <= {0.0, 1.0}:
        return wilson(float(summed.sum()), of)
    if binomial < 1e-12 or clusters < 2 or of <= 1:
        # Nothing is seen of how alike the answers of a cluster are: as if all were one.
        return wilson(share * clusters, clusters)
    spread = float(((summed - share * counted) ** 2).sum()) * clusters / (clusters - 1) / of**2
    effect = spread / (binomial / (of - 1))
    most = answers if answers is not None else of
    effective = most if effect * most <= of else of / effect
    return wilson(share * effective, effective)


def bootstrap_interval(
    sums: Sequence[float], counts: Sequence[float] | None = None, *, seed: int = 0
) -> tuple[float, float] | None:
    """The 95 % interval of a mean `sum(sums) / sum(counts)` by clusters, which are drawn anew with all that is in
    them; `counts` None: of one each. None for fewer than `FEWEST_CLUSTERS`.

    Expanded percentiles of 10,000 resamples (Efron 1979; Hesterberg 2015, section 5.3): of few clusters plain ones
    are too narrow, as the normal distribution is beside Student's t.
    """
    summed, counted = _clusters(sums, counts if counts is not None else [1.0] * len(sums))
    clusters = len(summed)
    if clusters < FEWEST_CLUSTERS:
        return None
    found = _resampled(summed, counted, np.random.default_rng(seed))
    tail = expanded_tail(clusters)
    low, high = np.quantile(found, [tail, 1 - tail], method="inverted_cdf")
    return float(low), float(high)


def expanded_tail(clusters: int) -> float:
    """The share of the resamples below an interval of so many clusters: 0.025 of infinitely many."""
    # Slow to import.
    from scipy.special import ndtr, stdtrit

    wider = sqrt(clusters / (clusters - 1)) * float(stdtrit(clusters - 1, (1 + _LEVEL) / 2))
    return float(ndtr(-wider))


def _resampled(
    summed: NDArray[np.float64], counted: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    clusters, found = len(summed), []
    rows = max(1, min(RESAMPLES, _DRAWN_AT_ONCE // clusters))
    for start in range(0, RESAMPLES, rows):
        drawn = rng.integers(clusters, size=(min(rows, RESAMPLES - start), clusters))
        found.append(summed[drawn].sum(axis=1) / counted[drawn].sum(axis=1))
    return np.concatenate(found)


def _clusters(sums: Sequence[float], counts: Sequence[float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Without clusters of nothing. Raises ValueError where nothing is left, and for lengths that differ."""
    if len(sums) != len(counts):
        raise ValueError(f"{len(sums)} sums and {len(counts)} counts are not of the same clusters")
    summed, counted = np.asarray(sums, np.float64), np.asarray(counts, np.float64)
    there = counted > 0
    if not there.any():
        raise ValueError("nothing was counted, so there is no mean")
    return summed[there], counted[there]


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Two of the values that have the median between them with 95 % at least, whatever they are drawn from (order
    statistics: David and Nagaraja 2003, section 7.1); None for fewer than six.
    """
    ordered, below, rank = sorted(values), 0.0, 0
    while 2 * (below + comb(len(ordered), rank) / 2 ** len(ordered)) <= 1 - _LEVEL:
        below += comb(len(ordered), rank) / 2 ** len(ordered)
        rank += 1
    return (ordered[rank - 1], ordered[-rank]) if rank else None


def mcnemar(only_first: int, only_second: int) -> float:
    """The two-sided p of McNemar's exact test: that two systems are equally often right, given so many tasks that
    only one of them got right (McNemar 1947; exact: the binomial test at one half). 1 where there is no such task.
    Raises ValueError for counts below 0.
    """
    if min(only_first, only_second) < 0:
        raise ValueError(f"{only_first} and {only_second} tasks cannot be")
    of, fewer = only_first + only_second, min(only_first, only_second)
    # Whole numbers, whose quotient is exact where floats would overflow.
    return min(1.0, 2 * sum(comb(of, count) for count in range(fewer + 1)) / (1 << of))


def holm(ps: Sequence[float]) -> tuple[float, ...]:
    """These p of tests that were made together, so adjusted that the chance of any false finding is below what is
    asked of one (Holm 1979), in the same order.
    """
    adjusted, highest = [0.0] * len(ps), 0.0
    for done, place in enumerate(sorted(range(len(ps)), key=lambda place: ps[place])):
        highest = max(highest, min(1.0, (len(ps) - done) * ps[place]))
        adjusted[place] = highest
    return tuple(adjusted)


def geometric_interval(
    ratios: Sequence[Sequence[float]], *, seed: int = 0
) -> tuple[float, tuple[float, float] | None]:
    """The geometric mean of ratios, given by cluster, with its 95 % interval by `bootstrap_interval`. Raises
    ValueError for none.
    """
    sums, counts = [math.fsum(map(math.log, each)) for each in ratios], [float(len(each)) for each in ratios]
    if not sum(counts):
        raise ValueError("there are no ratios")
    found = bootstrap_interval(sums, counts, seed=seed)
    middle = math.exp(math.fsum(sums) / sum(counts))
    return middle, (math.exp(found[0]), math.exp(found[1])) if found else None
