"""Statistics of an evaluation against enumeration of all that can happen, against scipy, and against known shares."""

import math
from itertools import combinations, permutations, product
from math import comb

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from trainer.evaluation import statistics

COUNTS = st.integers(1, 7).flatmap(lambda of: st.tuples(st.just(of), st.integers(0, of), st.integers(1, of)))


@given(COUNTS)
def test_pass_at_k_is_the_share_of_all_draws_in_which_one_is_right(counts):
    answers, right, k = counts
    draws = list(combinations(range(answers), k))
    share = sum(any(one < right for one in draw) for draw in draws) / len(draws)
    assert statistics.pass_at_k(answers, right, k) == pytest.approx(share)


@given(st.integers(1, 400), st.data())
def test_pass_at_k_is_the_hypergeometric_distributions_and_rises_with_k(answers, data):
    right, k = data.draw(st.integers(0, answers)), data.draw(st.integers(1, answers))
    expected = 1 - stats.hypergeom(answers, right, k).pmf(0)
    assert statistics.pass_at_k(answers, right, k) == pytest.approx(expected, abs=1e-9)
    if k < answers:
        assert statistics.pass_at_k(answers, right, k) <= statistics.pass_at_k(answers, right, k + 1)
    assert statistics.pass_at_k(answers, right, 1) == pytest.approx(right / answers)


def test_pass_at_k_is_unbiased():
    """Whatever the chance of a right answer is, the mean over all outcomes of n answers is that of k."""
    for chance, answers, k in product((0.05, 0.3, 0.9), (4, 9), (1, 2, 4)):
        weights = stats.binom(answers, chance).pmf(range(answers + 1))
        mean = sum(w * statistics.pass_at_k(answers, right, k) for right, w in enumerate(weights))
        assert mean == pytest.approx(1 - (1 - chance) ** k)


@pytest.mark.parametrize(("answers", "right", "k"), [(3, 1, 4), (3, 4, 1), (3, -1, 1), (3, 1, 0)])
def test_what_is_no_chance_is_refused(answers, right, k):
    with pytest.raises(ValueError, match="no chance"):
        statistics.pass_at_k(answers, right, k)


@given(st.integers(1, 6), st.data())
def test_the_expected_first_pass_is_the_mean_over_all_orders(answers, data):
    right = data.draw(st.integers(0, answers))
    if not right:
        assert statistics.expected_first_pass(answers, right) is None
        return
    firsts = [1 + min(order.index(one) for one in range(right)) for order in permutations(range(answers))]
    assert statistics.expected_first_pass(answers, right) == pytest.approx(sum(firsts) / len(firsts))


@given(st.integers(0, 400), st.integers(0, 400))
def test_mcnemars_test_is_the_binomial_one(first, second):
    expected = stats.binomtest(first, first + second).pvalue if first + second else 1.0
    assert statistics.mcnemar(first, second) == pytest.approx(expected, rel=1e-6)
    assert statistics.mcnemar(first, second) == statistics.mcnemar(second, first)


@given(st.integers(0, 5), st.integers(0, 5))
def test_mcnemars_test_is_the_share_of_all_signs_as_uneven(first, second):
    of = first + second
    all_signs = list(product((0, 1), repeat=of))
    as_uneven = sum(abs(2 * sum(signs) - of) >= abs(first - second) for signs in all_signs)
    assert statistics.mcnemar(first, second) == pytest.approx(as_uneven / len(all_signs))


def test_mcnemars_test_of_many_tasks_and_of_none_that_can_be():
    assert statistics.mcnemar(3000, 2000) < 1e-40
    with pytest.raises(ValueError, match="cannot be"):
        statistics.mcnemar(-1, 3)


@given(st.lists(st.floats(0, 1), max_size=6))
def test_holms_p_is_the_least_level_at_which_stepping_down_rejects(ps):
    adjusted = statistics.holm(ps)
    assert all(mine >= p for mine, p in zip(adjusted, ps, strict=True))
    for level in {*ps, *adjusted, 0.05}:
        rejected = set()
        for done, place in enumerate(sorted(range(len(ps)), key=lambda place: ps[place])):
            if ps[place] * (len(ps) - done) > level:
                break
            rejected.add(place)
        # At the level itself rounding decides.
        sure = [place for place, mine in enumerate(adjusted) if mine < level * (1 - 1e-9)]
        assert set(sure) <= rejected <= {place for place, mine in enumerate(adjusted) if mine <= level * (1 + 1e-9)}


def test_the_interval_is_wilsons_and_covers_what_it_says():
    # Newcombe 1998, table I: 81 of 263 gives 0.2553 to 0.3662.
    assert statistics.wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert statistics.wilson(0, 10)[0] == 0
    assert statistics.wilson(10, 10)[1] == pytest.approx(1)
    for share in (0.1, 0.5, 0.8):
        covered = [low <= share <= high for low, high in (statistics.wilson(hits, 50) for hits in range(51))]
        chances = [comb(50, hits) * share**hits * (1 - share) ** (50 - hits) for hits in range(51)]
        assert sum(chance for chance, inside in zip(chances, covered, strict=True) if inside) > 0.93
    with pytest.raises(ValueError, match="no share"):
        statistics.wilson(3, 2)


@given(st.integers(1, 300), st.data())
def test_wilsons_interval_is_scipys(of, data):
    right = data.draw(st.integers(0, of))
    expected = stats.binomtest(right, of).proportion_ci(0.95, method="wilson")
    assert statistics.wilson(right, of) == pytest.approx((expected.low, expected.high), abs=1e-9)


@given(st.lists(st.integers(0, 1), min_size=1, max_size=60))
def test_a_share_of_single_answers_has_wilsons_interval(outcomes):
    ones = [1.0] * len(outcomes)
    assert statistics.share_interval(outcomes, ones) == statistics.wilson(sum(outcomes), len(outcomes))


def test_answers_that_repeat_each_other_count_once():
    outcomes = [1, 0, 1, 1, 0, 1, 0, 1, 1, 1]
    four_times = statistics.share_interval([4 * one for one in outcomes], [4] * len(outcomes))
    assert four_times == pytest.approx(statistics.wilson(7, 10), abs=0.02)
    # Answers that have nothing to do with each other count each.
    apart = statistics.share_interval([2] * 10 + [3] * 10, [4] * 20)
    assert apart[1] - apart[0] < statistics.wilson(12.5, 20)[1] - statistics.wilson(12.5, 20)[0]
    # Where all are right nobody knows how alike they are.
    assert statistics.share_interval([4] * 10, [4] * 10) == statistics.wilson(10, 10)
    with pytest.raises(ValueError, match="nothing was counted"):
        statistics.share_interval([0, 0], [0, 0])
    with pytest.raises(ValueError, match="not of the same"):
        statistics.share_interval([0, 0], [1])


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 5)), min_size=1, max_size=30))
def test_a_shares_interval_lies_around_it_in_0_to_1(clusters):
    sums, counts = [share * of for share, of in clusters], [of for _, of in clusters]
    low, high = statistics.share_interval(sums, counts)
    share = sum(sums) / sum(counts)
    assert 0 <= low <= share + 1e-9
    assert share - 1e-9 <= high <= 1


@pytest.mark.parametrize(("alike", "share"), [(0.5, 0.3), (0.9, 0.7), (0.0, 0.5)])
def test_a_shares_interval_covers_it_where_answers_of_a_task_are_alike(alike, share):
    rng, covered, of = np.random.default_rng(5), 0, 800
    for _ in range(of):
        easy = rng.random(40) < share
        copies = rng.random((40, 4)) < alike
        right = np.where(copies, easy[:, None], rng.random((40, 4)) < share).sum(axis=1)
        low, high = statistics.share_interval(right.tolist(), [4] * 40)
        covered += low <= share <= high
    assert covered / of > 0.93


def enumerated(sums, counts):
    """The mean of every resample, each as likely as every other."""
    places = range(len(sums))
    return np.array(
        [sum(sums[i] for i in drawn) / sum(counts[i] for i in drawn) for drawn in product(places, repeat=len(sums))]
    )


@pytest.mark.parametrize(
    ("sums", "counts"),
    [
        ([0.0, 1.0, 3.0, 7.0, 20.0], [1.0] * 5),
        ([-1.5, 0.25, 0.5, 2.0, 0.0, 1.0], [1.0] * 6),
        ([1.0, 2.0, 0.0, 4.0, 3.0], [1, 2, 3, 4, 5]),
    ],
)
def test_the_bootstrap_is_that_of_all_resamples(sums, counts):
    every = enumerated(sums, counts)
    tail = statistics.expanded_tail(len(sums))
    low, high = statistics.bootstrap_interval(sums, counts)
    # 10,000 draws find a quantile to within a few times the root of tail / 10,000.
    slack = 5 * math.sqrt(tail / statistics.RESAMPLES)
    assert (every < low - 1e-12).mean() <= tail + slack
    assert (every <= low + 1e-12).mean() >= tail - slack
    assert (every > high + 1e-12).mean() <= tail + slack
    assert (every >= high - 1e-12).mean() >= tail - slack


def test_of_many_clusters_it_is_scipys_percentile_bootstrap():
    values = np.random.default_rng(3).gamma(2.0, size=400)
    plain = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=20_000, rng=1).confidence_interval
    found = statistics.bootstrap_interval(values.tolist())
    assert found == pytest.approx((plain.low, plain.high), rel=0.01)


@given(st.integers(3, 2000))
def test_the_tail_is_narrower_than_a_fortieth_and_nears_it(clusters):
    tail = statistics.expanded_tail(clusters)
    expected = stats.norm.cdf(stats.t.ppf(0.025, clusters - 1) * math.sqrt(clusters / (clusters - 1)))
    assert tail == pytest.approx(expected, rel=1e-6)
    assert tail < 0.025


@pytest.mark.parametrize("clusters", [8, 30])
def test_the_bootstrap_covers_the_mean_of_a_few_clusters(clusters, monkeypatch):
    monkeypatch.setattr(statistics, "RESAMPLES", 1000)
    rng, covered = np.random.default_rng(7), 0
    for seed in range(500):
        low, high = statistics.bootstrap_interval(rng.normal(1.0, 2.0, clusters).tolist(), seed=seed)
        covered += low <= 1.0 <= high
    assert covered / 500 > 0.92


@given(st.lists(st.floats(-5, 5), min_size=3, max_size=20), st.floats(-3, 3), st.integers(0, 9))
def test_the_bootstrap_moves_with_its_values_and_hangs_on_its_seed_alone(values, by, seed):
    assume(max(values) - min(values) > 1e-3)
    low, high = statistics.bootstrap_interval(values, seed=seed)
    assert min(values) - 1e-9 <= low <= high <= max(values) + 1e-9
    assert statistics.bootstrap_interval(values, seed=seed) == (low, high)
    moved = statistics.bootstrap_interval([value + by for value in values], seed=seed)
    assert moved == pytest.approx((low + by, high + by), abs=1e-9)


def test_few_clusters_and_clusters_of_nothing():
    assert statistics.bootstrap_interval([1.0, 2.0]) is None
    assert statistics.bootstrap_interval([1.0, 2.0, 5.0], [1, 1, 0]) is None
    assert statistics.bootstrap_interval([1.0, 1.0, 1.0]) == (1.0, 1.0)


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=12))
def test_the_geometric_mean_of_ratios_turns_round_with_them(ratios):
    middle, interval = statistics.geometric_interval([[one] for one in ratios])
    assert middle == pytest.approx(stats.gmean(ratios))
    around, _ = statistics.geometric_interval([[1 / ratio] for ratio in ratios])
    assert around == pytest.approx(1 / middle)
    if interval is None:
        assert len(ratios) < statistics.FEWEST_CLUSTERS
    else:
        assert min(ratios) * (1 - 1e-9) <= interval[0] <= interval[1] <= max(ratios) * (1 + 1e-9)
    with pytest.raises(ValueError, match="no ratios"):
        statistics.geometric_interval([])


def test_the_interval_of_a_median_covers_it_and_no_narrower_one_would():
    assert statistics.median_interval(range(5)) is None
    assert statistics.median_interval([5.0, 1.0, 2.0, 3.0, 4.0, 6.0]) == (1.0, 6.0)
    for count in (7, 20, 51, 200):
        low, high = statistics.median_interval(range(count))
        assert low + high == count - 1

        def missed(rank, of=count):
            """The chance that fewer than `rank` of so many values lie below their median, or above it."""
            return 2 * sum(comb(of, below) for below in range(rank)) / 2**of

        assert missed(low + 1) <= 0.05 < missed(low + 2)
