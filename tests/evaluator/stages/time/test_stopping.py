import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.contract import RewardName, Settings
from common.reward import reward_if_right
from evaluator.stages.time.stopping import FEWEST_LAUNCHES, MAX_LAUNCHES, MIN_LAUNCHES, StoppingRule, ranks

QUIET = [10.0, 10.01, 9.99, 10.0, 10.02]


def launches_of(rule, speedup, width, seed=5):
    """How many launches of a kernel with this noise it takes."""
    generator = np.random.default_rng(seed)
    event, baseline = [], []
    while not rule.met(event, baseline):
        event.append(10 * generator.lognormal(0, width))
        baseline.append(10 * speedup * generator.lognormal(0, width))
    return len(event), event, baseline


def test_launches_end_when_the_speedup_is_known_and_not_before():
    rule = StoppingRule()
    assert not rule.met(QUIET, QUIET)
    assert rule.met(QUIET * 2, QUIET * 2)
    assert not rule.met(QUIET * 2, (QUIET * 2)[: MIN_LAUNCHES - 1])
    noisy = [8.0, 12.0, 9.0, 11.0, 10.0]
    assert not rule.met(noisy * 8, QUIET * 8)
    assert not rule.met(QUIET * 8, noisy * 8)
    assert rule.met(noisy * (MAX_LAUNCHES // 5), QUIET * 8)
    assert StoppingRule(most=20).met(noisy * 4, QUIET * 4)


def test_a_quieter_kernel_needs_fewer_launches():
    counts = [launches_of(StoppingRule(), 2.0, width)[0] for width in (0.0005, 0.01, 0.2)]
    assert counts[0] == MIN_LAUNCHES < counts[1] < counts[2] == MAX_LAUNCHES


def test_the_settings_of_an_evaluation_are_the_rule():
    settings = Settings(max_launches=50, timing_precision=0.02, reward_precision=0.03, target_speedup=4)
    assert StoppingRule.of(settings) == StoppingRule(50, 0.02, 0.03, RewardName.WEIGHTED, 4.0)
    assert StoppingRule.of(Settings()) == StoppingRule()


def test_a_slow_kernel_ends_early_where_the_reward_is_what_is_asked_for():
    by_reward = StoppingRule(reward_precision=0.01)
    assert launches_of(by_reward, 0.05, 0.05)[0] == FEWEST_LAUNCHES
    # What may earn much is launched ten times in any case, however quiet it is.
    assert launches_of(by_reward, 1.5, 0.0001)[0] == MIN_LAUNCHES
    fast, slow = launches_of(by_reward, 3.0, 0.05)[0], launches_of(by_reward, 0.3, 0.05)[0]
    assert MIN_LAUNCHES <= slow < fast
    # Beyond twice the target no speed earns more.
    assert launches_of(by_reward, 40.0, 0.05)[0] == MIN_LAUNCHES


def test_a_slow_kernel_is_measured_as_exactly_as_its_share_of_the_baselines_speed_is_worth():
    noise = 0.05
    counts = [launches_of(StoppingRule(), speedup, noise)[0] for speedup in (0.2, 0.08, 0.06, 0.03, 0.001)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 100
    assert counts[-1] == FEWEST_LAUNCHES
    # Who wants to know more of slow kernels asks for more.
    assert launches_of(StoppingRule(precision=0.001), 0.03, noise)[0] == MAX_LAUNCHES
    assert launches_of(StoppingRule(), 0.04, 0.0001)[0] == FEWEST_LAUNCHES
    assert launches_of(StoppingRule(), 0.06, 0.0001)[0] == MIN_LAUNCHES


def test_a_slow_speedup_is_known_to_a_tenth_nineteen_times_in_twenty():
    within = 0
    for seed in range(200):
        _, event, baseline = launches_of(StoppingRule(), 0.01, 0.08, seed)
        within += abs(float(np.median(baseline) / np.median(event)) / 0.01 - 1) <= 0.1
    assert within >= 0.9 * 200


def test_launches_that_take_seconds_end_after_six():
    rule, noisy = StoppingRule(), [1.1e6, 1.9e6, 1.3e6]
    assert rule.met(noisy * 2, QUIET * 2)
    assert not rule.met((noisy * 2)[1:], QUIET * 2)
    assert not rule.met([0.9e6, 0.5e6, 0.7e6] * 2, QUIET * 2)


def test_a_reward_that_no_speedup_changes_is_no_reason_to_stop():
    rule = StoppingRule(reward_precision=0.5, reward=RewardName.COVERAGE)
    assert launches_of(rule, 0.05, 0.02)[0] == launches_of(StoppingRule(), 0.05, 0.02)[0] > MIN_LAUNCHES


@pytest.mark.parametrize("name", [RewardName.WEIGHTED, RewardName.GATED, RewardName.COMPONENTS, RewardName.SPEEDUP])
@pytest.mark.parametrize("speedup", [0.03, 0.4, 1.3])
def test_the_reward_is_known_as_well_as_was_asked_for(name, speedup):
    """What was launched earns what the true speedup does, to the precision, nineteen times in twenty."""
    rule, within = StoppingRule(reward_precision=0.02, reward=name), 0
    for seed in range(200):
        _, event, baseline = launches_of(rule, speedup, 0.08, seed)
        found = float(np.median(baseline) / np.median(event))
        earned, true = (reward_if_right(name, one, 2.0).value for one in (found, speedup))
        within += abs(earned - true) <= 0.02
    assert within >= 0.9 * 200


@given(st.integers(1, 400))
def test_ranks_are_positions_on_both_sides_of_the_middle(count):
    low, high = ranks(count)
    assert 0 <= low <= (count - 1) / 2 <= high < count
    if count <= FEWEST_LAUNCHES:
        assert (low, high) == (0, count - 1)


def test_few_launches_are_sure_where_few_may_do():
    rule = StoppingRule()
    assert [rule.sure_launches([100.0], [base]) for base in (200.0, 6.0, 5.0)] == [20, 20, FEWEST_LAUNCHES]
    assert rule.sure_launches([2e6], [2e6]) == FEWEST_LAUNCHES
    assert StoppingRule(reward_precision=0.1).sure_launches([100.0], [200.0]) == FEWEST_LAUNCHES
    assert StoppingRule(most=MIN_LAUNCHES).sure_launches([100.0], [200.0]) == MIN_LAUNCHES


def test_the_baseline_is_known_once_its_own_interval_adds_little():
    rule, noisy = StoppingRule(), [8.0, 12.0, 9.0, 11.0, 10.0]
    assert rule.baseline_known([10.0], QUIET * 2)
    assert not rule.baseline_known([10.0], QUIET), "five say too little"
    assert not rule.baseline_known([10.0], noisy * 2)
    # Of a hundredth of the baseline's speed a tenth is known well enough.
    assert rule.baseline_known([1000.0], [9.8, 10.2] * 4)
    assert not rule.baseline_known([10.0], [9.8, 10.2] * 4)
