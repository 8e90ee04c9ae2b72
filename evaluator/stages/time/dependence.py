"""The interval of a speedup, from samples that need not be independent of each other.

Times of consecutive launches are alike: those of kernels that are bound by memory fall on two humps, 1.4 us apart on
an H200, and stay on one for some launches. Resampled one by one, they would say more than they know. So stretches of
neighbours are resampled together, as long as the samples' own correlation asks for.

Sources: the circular block bootstrap, Politis and Romano, "A circular block-resampling procedure for stationary data"
(1992); the length over which samples are alike, from the first part of their autocorrelation that is positive, after
Geyer, "Practical Markov chain Monte Carlo" (Statistical Science 7, 1992).
"""

import hashlib
import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from evaluator.stages.time.stopping import MIN_LAUNCHES

RESAMPLES: Final = 1000
_BLOCKS_AT_LEAST: Final = 4
"""Fewer blocks show nothing of how they differ."""
_BLOCK_OF_LENGTHS: Final = 2.0
"""Of the length over which samples are alike: what a block holds. One length keeps too little of the dependence: on
made-up series of two humps it covers 0.85 to 0.95 of the time, two cover 0.88 to 0.97."""
_ONE_SAMPLE: Final = 9.68
"""Times its size, on both sides: the 95 % interval of a mean of which one normal sample is known. Edelman, "A
Confidence Interval for the Center of an Unknown Unimodal Distribution Based on a Sample of Size One" (The American
Statistician 44, 1990), after Abbott and Rosenblatt (1963)."""

Samples = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """Where the true ratio of two medians lies."""

    low: float
    high: float
    stderr: float


def interval(event: Samples, baseline: Samples, confidence: float) -> Interval:
    """Of the median of `baseline` over that of `event`, each one dimension, positive, in the order of measuring.

    Ten samples of both at least: the percentiles of resampled blocks, wider as Student's t distribution is for as few
    blocks as there are. Fewer samples: the hull of their whole range and of Student's interval of the logarithms.
    The same samples in the same order give the same interval.
    """
    ratio = float(np.median(baseline) / np.median(event))
    if min(len(event), len(baseline)) < MIN_LAUNCHES:
        return _of_few(event, baseline, ratio, confidence)
    seed = hashlib.sha256(event.tobytes() + b"/" + baseline.tobytes()).digest()
    rng = np.random.default_rng(int.from_bytes(seed, "little"))
    blocks = [block_length(samples) for samples in (event, baseline)]
    medians = [_resampled(samples, block, rng) for samples, block in zip((event, baseline), blocks, strict=True)]
    ratios = medians[1] / medians[0]
    low, high = np.quantile(ratios, [(1 - confidence) / 2, (1 + confidence) / 2])
    independent = min(len(event) // blocks[0], len(baseline) // blocks[1])
    wider = _student(independent - 1, confidence) / _student(None, confidence)
    return Interval(
        low=ratio * (float(low) / ratio) ** wider,
        high=ratio * (float(high) / ratio) ** wider,
        stderr=float(np.std(ratios, ddof=1)) * wider,
    )


def block_length(samples: Samples) -> int:
    """How many neighbours are resampled together: 1 where neighbours are not alike."""
    longest = max(len(samples) // _BLOCKS_AT_LEAST, 1)
    # Rounded, so that other versions of numpy find the same whole number.
    return min(math.ceil(round(_BLOCK_OF_LENGTHS * integrated_autocorrelation_time(samples) - 1, 6)), longest)


def integrated_autocorrelation_time(samples: Samples) -> float:
    """The integrated autocorrelation time, in samples, at least 1: so many are worth one that is independent."""
    centred = samples - samples.mean()
    sums = np.correlate(centred, centred, "full")[len(samples) - 1 :]
    if sums[0] <= 0:
        return 1.0
    correlation = sums / sums[0]
    ends = np.flatnonzero(correlation <= 1e-9)
    return 1 + 2 * float(correlation[1 : ends[0] if ends.size else None].sum())


def _resampled(samples: Samples, block: int, rng: np.random.Generator) -> Samples:
    """The medians of RESAMPLES series of blocks; a block that goes past the end goes on at the beginning."""
    count = len(samples)
    starts = rng.integers(0, count, (RESAMPLES, -(-count // block)))
    places = (starts[:, :, None] + np.arange(block)) % count
    medians: Samples = np.median(samples[places.reshape(RESAMPLES, -1)[:, :count]], axis=1)
    return medians


def _of_few(event: Samples, baseline: Samples, ratio: float, confidence: float) -> Interval:
    low, high = float(baseline.min() / event.max()), float(baseline.max() / event.min())
    if min(len(event), len(baseline)) == 1:
        return Interval(ratio / (1 + _ONE_SAMPLE), ratio * (1 + _ONE_SAMPLE), ratio * _ONE_SAMPLE / 2)
    variances = [float(np.var(np.log(samples), ddof=1)) / len(samples) for samples in (event, baseline)]
    # Welch's degrees of freedom, taken as those of the smaller set: never more.
    width = _student(min(len(event), len(baseline)) - 1, confidence) * math.sqrt(sum(variances))
    low, high = min(low, ratio * math.exp(-width)), max(high, ratio * math.exp(width))
    return Interval(low, high, (high - low) / 2)


def _student(freedom: int | None, confidence: float) -> float:
    """The quantile of Student's t distribution for a two-sided interval; of the normal one without `freedom`."""
    # Slow to import, and needed only where a GPU has timed something.
    from scipy.special import ndtri, stdtrit

    quantile = (1 + confidence) / 2
    return float(ndtri(quantile) if freedom is None else stdtrit(freedom, quantile))
