"""Turns are found in the mask, and compared within their group."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from verl.trainer.ppo import core_algos, ray_trainer
from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage, get_adv_estimator_fn

from trainer.rewards import plain_advantages
from trainer.rl import patches
from trainer.rl.advantages import by_turn, turn_gae, turns_of

MASKS = st.lists(st.lists(st.integers(0, 1), min_size=12, max_size=12), min_size=1, max_size=6)


@given(MASKS)
def test_a_turn_is_a_run_of_generated_tokens(rows):
    mask = torch.tensor(rows)
    turns = turns_of(mask)
    for row, found in zip(rows, turns.tolist(), strict=True):
        number, before = -1, 0
        for inside, turn in zip(row, found, strict=True):
            number += inside and not before
            assert turn == (number if inside else -1)
            before = inside


def test_each_turn_is_compared_with_the_same_turn_of_its_group():
    mask = torch.tensor([[1, 1, 0, 1], [1, 0, 1, 1], [1, 1, 1, 1]])
    rewards = torch.tensor([[0.0, 1.0, 0.0, 3.0], [3.0, 0.0, 0.0, 5.0], [0.0, 0.0, 0.0, 9.0]])
    advantages, returns = get_adv_estimator_fn("assay_leave_one_out")(
        token_level_rewards=rewards, response_mask=mask, index=np.array(["a", "a", "b"]), config=None
    )
    assert advantages.tolist() == [[-2, -2, 0, -2], [2, 0, 2, 2], [0, 0, 0, 0]]
    assert returns.tolist() == [[1, 1, 0, 3], [3, 0, 5, 5], [9, 9, 9, 9]]


@given(MASKS, st.integers(0, 2**31 - 1))
def test_nothing_is_learned_from_what_was_not_generated(rows, seed):
    mask = torch.tensor(rows)
    rewards = torch.rand(mask.shape, generator=torch.Generator().manual_seed(seed)) * mask
    groups = [place % 2 for place in range(len(rows))]
    advantages, returns = by_turn(rewards, mask, groups, plain_advantages)
    assert torch.isfinite(advantages).all()
    assert (advantages[mask == 0] == 0).all()
    assert (returns[mask == 0] == 0).all()
    # All tokens of a turn are moved alike.
    for row, turns in zip(advantages, turns_of(mask), strict=True):
        for turn in range(int(turns.max()) + 1):
            assert len(set(row[turns == turn].tolist())) == 1


def test_verl_knows_the_estimators_by_name():
    for name in ("assay_turn", "assay_leave_one_out", "assay_group"):
        assert callable(get_adv_estimator_fn(name))


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=6))
def test_conversations_of_one_turn_are_compared_as_verl_does(scores):
    rewards = torch.zeros(len(scores), 5)
    rewards[:, 3] = torch.tensor(scores)
    mask = torch.tensor([[1, 1, 1, 1, 0]] * len(scores))
    index = np.array(["a"] * len(scores))
    ours, _ = get_adv_estimator_fn("assay_group")(token_level_rewards=rewards, response_mask=mask, index=index)
    theirs, _ = compute_grpo_outcome_advantage(rewards, mask, index)
    assert torch.allclose(ours, theirs, atol=1e-4)


def test_a_conversation_gains_nothing_by_being_longer():
    # The same credit for each turn: one turn, two, three.
    mask = torch.tensor([[1, 0, 0, 0, 0], [1, 0, 1, 0, 0], [1, 0, 1, 0, 1]])
    rewards = 0.5 * mask
    advantages, returns = get_adv_estimator_fn("assay_group")(
        token_level_rewards=rewards, response_mask=mask, index=np.array(["a"] * 3)
    )
    assert advantages.tolist() == torch.zeros(3, 5).tolist()
    assert returns.tolist() == rewards.tolist()
    _, returns = turn_gae(rewards, torch.full((3, 5), 0.1), mask, 1.0, 0.95)
    assert torch.allclose(returns, rewards)


@given(MASKS, st.integers(0, 2**31 - 1), st.floats(0.5, 1), st.floats(0, 1))
def test_each_turn_is_an_episode_as_verl_estimates_it(rows, seed, gamma, lam):
    mask = torch.tensor(rows)
    mask[0, 0] = mask[0, 2] = 1
    stream = torch.Generator().manual_seed(seed)
    rewards = torch.rand(mask.shape, generator=stream, dtype=torch.float64) * mask
    values = torch.rand(mask.shape, generator=stream, dtype=torch.float64)
    _, returns = turn_gae(rewards, values, mask, gamma, lam)
    for row, turns in enumerate(turns_of(mask)):
        for turn in range(int(turns.max()) + 1):
            alone = (turns == turn).long()[None]
            _, expected = verls_own(rewards[row : row + 1] * alone, values[row : row + 1], alone, gamma, lam)
            assert torch.allclose(returns[row][alone[0] == 1], expected[0][alone[0] == 1])
    assert (returns[mask == 0] == 0).all()


def verls_own(rewards, values, mask, gamma, lam):
    function = core_algos.compute_gae_advantage_return
    # The mask of a single token cannot be whitened.
    return_of = getattr(function, "__wrapped__", function)
    pad = torch.ones(1, 2, dtype=mask.dtype)
    advantages, returns = return_of(
        torch.cat([rewards, torch.zeros(1, 2, dtype=rewards.dtype)], dim=1),
        torch.cat([values, torch.zeros(1, 2, dtype=values.dtype)], dim=1),
        torch.cat([mask, pad], dim=1),
        gamma,
        lam,
    )
    return advantages[:, :-2], returns[:, :-2]


def test_verl_estimates_by_turns_once_it_is_told_to(monkeypatch):
    monkeypatch.setattr(core_algos, "compute_gae_advantage_return", core_algos.compute_gae_advantage_return)
    patches.apply_to_advantages()
    assert ray_trainer.core_algos.compute_gae_advantage_return.assay_patch
    mask = torch.tensor([[1, 1, 0, 1, 1]])
    rewards = torch.tensor([[0.0, 1.0, 0.0, 0.0, 3.0]])
    _, returns = ray_trainer.core_algos.compute_gae_advantage_return(rewards, torch.zeros(1, 5), mask, 1.0, 1.0)
    assert returns.tolist() == [[1, 1, 0, 3, 3]]
