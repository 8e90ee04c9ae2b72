"""Turns are found in the mask, and compared within their group."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from verl.trainer.ppo.core_algos import get_adv_estimator_fn

from trainer.rewards import plain_advantages
from trainer.rl.advantages import by_turn, turns_of

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


def test_verl_knows_both_estimators_by_name():
    for name in ("assay_turn", "assay_leave_one_out"):
        assert callable(get_adv_estimator_fn(name))
