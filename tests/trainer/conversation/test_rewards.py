"""Rewards, credit and advantages: sums that must come out, and comparisons that must be fair."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import sample_verdicts as samples
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scripted import ANSWERS, KINDS, TASK, kernel, played

from common.contract import RewardName, Settings, Status
from common.reward import ComponentSettings
from trainer.config.schema import FlowSection as FlowSection
from trainer.config.schema import RewardSection as RewardSection
from trainer.conversation.conversation import AgentName, Conversation, Flow
from trainer.conversation.episode import EpisodeSettings, Judged
from trainer.conversation.extraction import wrapped
from trainer.conversation.rewards import (
    CreditSettings,
    RewardSettings,
    credit_settings,
    credits_of,
    immediate_reward,
    leave_one_out_advantages,
    plain_advantages,
    reward_settings,
)
from trainer.errors import ConfigurationError


@given(
    ANSWERS,
    st.builds(CreditSettings, immediate_share=st.floats(0, 1), discount=st.floats(0.01, 1), shared=st.booleans()),
)
def test_credit_is_the_weighted_sum_that_the_requirements_name(answers, settings):
    conversation = played(answers)
    credits = credits_of(conversation, settings)
    count = len(conversation.attempts)
    assert len(credits) == count
    for number, (attempt, credit) in enumerate(zip(conversation.attempts, credits, strict=True)):
        assert (credit is None) == (attempt.reward is None)
        if credit is None:
            continue
        expected = attempt.reward.value
        if settings.shared:
            share = settings.immediate_share
            later = conversation.final_reward * settings.discount ** (count - 1 - number)
            expected = share * expected + (1 - share) * later
        assert credit.value == pytest.approx(expected)
        assert f"{credit.value:.4g}" in credit.explanation


@dataclass
class Speeds:
    """An oracle for which all kernels are right, at these speedups over the baseline in turn."""

    speedups: list[float]

    async def evaluate(self, submission):
        verdict = samples.passed()
        profile = verdict.profile.model_copy(update={"estimated_speedup": self.speedups.pop(0)})
        return Judged(verdict.model_copy(update={"profile": profile}))


PAID_OTHERWISE = {
    AgentName.GENERATOR: RewardSettings(RewardName.COMPONENTS),
    AgentName.OPTIMIZER: RewardSettings(RewardName.SPEEDUP),
}


@given(st.lists(st.sampled_from([0.1, 0.2, 0.4, 1.0, 3.0, 8.0]), min_size=2, max_size=5))
def test_each_agent_shares_in_the_end_by_its_own_reward(speedups):
    answers = [wrapped(kernel(f"pass_{number}")) for number in range(len(speedups))]
    flow = Flow(len(speedups), stop_at=1000)
    paid = {}
    for rewards in (PAID_OTHERWISE, *(dict.fromkeys(AgentName, one) for one in PAID_OTHERWISE.values())):
        settings = EpisodeSettings(flow=flow, rewards=rewards, turn_tokens=10_000)
        conversation = played(answers, settings=settings, oracle=Speeds(list(speedups)))
        paid[rewards[AgentName.GENERATOR].name, rewards[AgentName.OPTIMIZER].name] = conversation
    mixed = paid[RewardName.COMPONENTS, RewardName.SPEEDUP]
    components = paid[RewardName.COMPONENTS, RewardName.COMPONENTS]
    speedup = paid[RewardName.SPEEDUP, RewardName.SPEEDUP]
    # As if all kernels had been written for the agent's own reward.
    (first, *_), own = (credits_of(one, CreditSettings()) for one in (components, mixed))
    assert own == (first, *credits_of(speedup, CreditSettings())[1:])
    assert mixed.final_reward == mixed.final_reward_to(AgentName.GENERATOR) == components.final_reward
    assert mixed.final_reward_to(AgentName.OPTIMIZER) == speedup.final_reward == max(speedups) + 0.3
    assert mixed.best.number == components.best.number
    # Where all are paid alike nothing is said twice.
    assert all(not attempt.tested.other_values for attempt in components.attempts)


def test_an_optimizer_that_doubles_the_speed_has_the_best_kernel_and_its_own_units():
    settings = EpisodeSettings(flow=Flow(2, stop_at=1000), rewards=PAID_OTHERWISE, turn_tokens=10_000)
    answers = [wrapped(kernel("pass_0")), wrapped(kernel("pass_1"))]
    conversation = played(answers, settings=settings, oracle=Speeds([0.2, 0.4]))
    first, second = conversation.attempts
    assert first.value > second.value, "in units of their own"
    assert conversation.best == second
    generator, optimizer = credits_of(conversation, CreditSettings())
    assert optimizer.final == pytest.approx(0.3 + 0.4)
    fast = played(answers, settings=settings, oracle=Speeds([0.2, 3.0]))
    assert generator.final < credits_of(fast, CreditSettings())[0].final <= fast.attempts[0].reward.maximum


def test_an_optimizer_that_is_paid_for_its_gain_earns_what_is_beyond_the_best_before():
    settings = EpisodeSettings(flow=Flow(4, stop_at=1000), rewards=PAID_OTHERWISE, turn_tokens=10_000)
    answers = [wrapped(kernel(name)) for name in ("pass_0", "pass_1", "pass_2", "pass_1")]
    conversation = played(answers, settings=settings, oracle=Speeds([0.5, 2.0, 0.5]))
    first, faster, slower, again = credits_of(conversation, CreditSettings(shared=False, gain=True))
    assert first.value == conversation.attempts[0].value, "the Generator is paid as before"
    assert faster.value == pytest.approx(1.5)
    assert slower.value == pytest.approx(-1.5), "though it is as fast as the first one"
    assert again.value == pytest.approx(0.0), "a repeat gains nothing and loses nothing"
    assert conversation.attempts[3].value == 0.0
    assert "gained" in faster.explanation
    shared = credits_of(conversation, CreditSettings(gain=True))[1]
    assert shared.value == pytest.approx(0.3 * 1.5 + 0.7 * 2.3 * 0.9**2)


def test_what_mends_a_wrong_kernel_gains_all_that_it_is_worth():
    settings = EpisodeSettings(flow=Flow(3, stop_at=1000), rewards=PAID_OTHERWISE, turn_tokens=10_000)
    answers = [wrapped(kernel(name)) for name in ("wrong_0", "pass_1", "wrong_2")]
    conversation = played(answers, settings=settings)
    wrong, mended, broken = credits_of(conversation, CreditSettings(shared=False, gain=True))
    before = conversation.attempts[0].value_to(AgentName.OPTIMIZER)
    assert wrong.value == conversation.attempts[0].value
    assert mended.value == pytest.approx(conversation.attempts[1].value - before) != 0
    assert broken.value == pytest.approx(conversation.attempts[2].value - conversation.attempts[1].value)
    assert broken.value < 0


def test_what_an_answer_without_a_kernel_costs_is_no_gain_of_the_kernel_after_it():
    rewards = RewardSettings(RewardName.SPEEDUP, format_error=-0.5)
    settings = EpisodeSettings(Flow(4, stop_at=1000), {AgentName.GENERATOR: rewards}, turn_tokens=10_000)
    answers = ["no", wrapped(kernel("compile_0")), "no", wrapped(kernel("pass_1"))]
    conversation = played(answers, settings=settings)
    earned = credits_of(conversation, CreditSettings(shared=False, gain=True))
    right = conversation.attempts[3].value
    assert [one.value for one in earned] == [-0.5, 0.0, -0.5, pytest.approx(right)]
    (_, again) = credits_of(
        played(["no", "no"], settings=replace(settings, flow=Flow(2))), CreditSettings(shared=False, gain=True)
    )
    assert again.value == -0.5, "no kernel after no kernel costs what it costs"


def test_the_figures_of_the_requirements_are_those_of_shared_credit():
    answers = [wrapped(kernel(name)) for name in ("wrong_0", "pass_0")]
    conversation = played(answers, settings=EpisodeSettings(flow=Flow(2), turn_tokens=10_000))
    wrong, right = (attempt.value for attempt in conversation.attempts)
    first, second = credits_of(conversation, CreditSettings())
    assert first.value == pytest.approx(0.3 * wrong + 0.7 * right * 0.9)
    assert second.value == pytest.approx(0.3 * right + 0.7 * right)
    assert credit_settings(FlowSection(credit=True)) == CreditSettings()
    assert credit_settings(FlowSection()).shared is False
    assert credit_settings(FlowSection(optimizer_earns="gain")).gain is True


def test_nobody_is_paid_before_the_end():
    with pytest.raises(ValueError, match="not over"):
        credits_of(Conversation("c", TASK, Flow(), 0), CreditSettings())


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"odd"}))
def test_the_trainer_reckons_as_the_evaluator_does(kind):
    """Same function, same facts: for verdicts of the simulator the same value, term by term."""
    verdict = KINDS[kind]()
    found = immediate_reward(verdict, RewardSettings(), samples.SETTINGS)
    if verdict.backend == "sim" and verdict.profile is not None and verdict.profile.evidence is not None:
        assert found == verdict.reward
    assert found.name is RewardName.WEIGHTED
    assert found.value == pytest.approx(sum(term.contribution for term in found.terms))


def test_what_was_not_judged_has_no_reward():
    for status in (Status.UNSUPPORTED, Status.CANCELLED, Status.INTERNAL_ERROR):
        verdict = samples.verdict(status, "launch", "It was not judged at all.")
        assert immediate_reward(verdict, RewardSettings(), Settings()) is None


def test_a_reward_that_cannot_be_measured_here_is_said_at_once():
    with pytest.raises(ConfigurationError, match="sol cannot be measured on the backend sim") as caught:
        immediate_reward(samples.passed(), RewardSettings(RewardName.SOL), samples.SETTINGS)
    assert "weighted" in caught.value.remedy


def test_a_reward_that_nothing_measures_is_refused_before_a_run():
    with pytest.raises(ConfigurationError, match="coverage cannot be learned from"):
        reward_settings(RewardSection(name="coverage"))


def test_shaping_and_the_best_so_far_count_for_components():
    plain = RewardSettings(RewardName.COMPONENTS)
    verdict = samples.passed_on_gpu()
    alone = immediate_reward(verdict, plain, samples.SETTINGS)
    better = immediate_reward(verdict, plain, samples.SETTINGS, previous_best_speedup=0.1)
    assert better.value > alone.value
    section = RewardSection(name="components", shaping={"improvement_bonus": 0.2})
    assert reward_settings(section).components == ComponentSettings(improvement_bonus=0.2)
    bonus = immediate_reward(verdict, reward_settings(section), samples.SETTINGS, previous_best_speedup=0.1)
    assert bonus.value > better.value
    with pytest.raises(ConfigurationError, match="improvment_bonus") as caught:
        reward_settings(RewardSection(shaping={"improvment_bonus": 1}))
    assert "improvement_bonus" in caught.value.remedy
    with pytest.raises(ConfigurationError, match="sum to 1"):
        reward_settings(RewardSection(shaping={"compilation": 3}))


def test_an_answer_without_a_kernel_costs_what_is_set():
    rewards = {AgentName.GENERATOR: RewardSettings(format_error=-0.2)}
    settings = EpisodeSettings(flow=Flow(1), rewards=rewards)
    (attempt,) = played(["no"], settings=settings).attempts
    assert attempt.value == -0.2
    assert "no fenced block" in attempt.reward.terms[0].explanation
    with pytest.raises(ValueError, match="earns nothing"):
        RewardSettings(format_error=0.1)


REWARDS = arrays(
    float,
    st.tuples(st.integers(0, 8), st.integers(1, 4)),
    elements=st.one_of(st.just(float("nan")), st.floats(-2, 2).map(lambda value: round(value, 3))),
)


@given(REWARDS, st.data())
def test_advantages_compare_a_turn_with_its_own_group_only(rewards, data):
    groups = data.draw(st.lists(st.sampled_from("abc"), min_size=len(rewards), max_size=len(rewards)))
    for advantages in (plain_advantages(rewards, groups), leave_one_out_advantages(rewards, groups)):
        assert advantages.shape == rewards.shape
        assert np.isfinite(advantages).all()
        assert (advantages[np.isnan(rewards)] == 0).all()
        for group in set(groups):
            rows = [index for index, name in enumerate(groups) if name == group]
            assert np.allclose(advantages[rows].sum(axis=0), 0, atol=1e-6)
            other = rewards.copy()
            other[[index for index in range(len(groups)) if index not in rows]] = 0.5
            assert np.array_equal(plain_advantages(other, groups)[rows], plain_advantages(rewards, groups)[rows])


@given(REWARDS)
def test_leaving_one_out_compares_with_the_mean_of_the_others(rewards):
    advantages = leave_one_out_advantages(rewards, ["same"] * len(rewards))
    for row in range(len(rewards)):
        for turn in range(rewards.shape[1]):
            others = np.delete(rewards[:, turn], row)
            others = others[~np.isnan(others)]
            if len(others) and not np.isnan(rewards[row, turn]):
                assert advantages[row, turn] == pytest.approx(rewards[row, turn] - others.mean())
            else:
                assert advantages[row, turn] == 0


def test_plain_advantages_are_scaled_unless_told_otherwise():
    rewards = np.array([[0.0], [1.0], [np.nan], [2.0]])
    assert plain_advantages(rewards, "aaaa") == pytest.approx(np.array([[-1.0], [0.0], [0.0], [1.0]]), abs=1e-5)
    unscaled = plain_advantages(10 * rewards, "aaaa", scaled=False)
    assert unscaled == pytest.approx(np.array([[-10.0], [0.0], [0.0], [10.0]]))
    with pytest.raises(ValueError, match="do not fit"):
        plain_advantages(rewards, "aa")
