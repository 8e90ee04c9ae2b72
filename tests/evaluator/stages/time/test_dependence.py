"""Intervals of speedups from series whose neighbours are alike, as those of two humps are."""

import math

import numpy as np
import pytest

from evaluator.stages.time.dependence import block_length, integrated_autocorrelation_time, interval


def humps(generator, count, low_us, stays):
    """Times on two humps 1.4 us apart, four in ten on the upper one; `stays`: the correlation of neighbours."""
    drawn = generator.random(count) < 0.4
    again = generator.random(count) < stays
    kept = np.maximum.accumulate(np.where(again, 0, np.arange(count)))
    return low_us + 1.4 * drawn[kept] + 0.15 * generator.standard_normal(count)


TRUE_US = float(np.median(humps(np.random.default_rng(0), 400_000, 0, 0.0)))


@pytest.mark.parametrize("stays", [0.0, 0.3, 0.5, 0.7])
def test_the_interval_covers_the_true_speedup_of_two_humps(stays):
    covered, trials = 0, 50
    true = (90 + TRUE_US) / (33 + TRUE_US)
    for count in (50, 120):
        for seed in range(trials):
            generator = np.random.default_rng((seed, count))
            found = interval(humps(generator, count, 33, stays), humps(generator, count, 90, stays), 0.95)
            covered += found.low <= true <= found.high
    assert covered >= 0.9 * 2 * trials


def test_blocks_are_as_long_as_samples_are_alike():
    generator = np.random.default_rng(5)
    lengths = [integrated_autocorrelation_time(humps(generator, 20_000, 33, stays)) for stays in (0.0, 0.5, 0.8)]
    # (1 + r) / (1 - r), less what the noise adds to the variance.
    assert lengths == [pytest.approx(1, abs=0.15), pytest.approx(3, rel=0.15), pytest.approx(9, rel=0.15)]
    assert block_length(np.full(50, 10.0)) == 1
    assert block_length(np.linspace(10, 11, 40)) == 10


def test_independent_samples_give_the_interval_of_the_plain_bootstrap():
    generator = np.random.default_rng(1)
    widths = []
    for _ in range(30):
        event, baseline = 10 * generator.lognormal(0, 0.02, 100), 25 * generator.lognormal(0, 0.02, 100)
        found = interval(event, baseline, 0.95)
        widths.append((found.high - found.low) / 2 / 2.5)
    # Half of it: 1.96 standard errors of the ratio of two medians.
    assert np.median(widths) == pytest.approx(1.96 * 0.02 * math.sqrt(2 * math.pi / 2 / 100), rel=0.2)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_few_launches_are_not_taken_for_more_than_they_are(count):
    covered = 0
    for seed in range(200):
        generator = np.random.default_rng(seed)
        event, baseline = 10 * generator.lognormal(0, 0.05, count), 25 * generator.lognormal(0, 0.05, count)
        found = interval(event, baseline, 0.95)
        covered += found.low <= 2.5 <= found.high
    assert covered >= 0.95 * 200
