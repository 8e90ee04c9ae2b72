"""Advantage estimators of our own, registered with verl: turn against turn, instead of conversation against
conversation.

verl hands over padded tensors; a turn is a run of ones in the response mask, because what stands between two answers
of an agent is never generated. The arithmetic itself is `trainer.rewards`'.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from verl.trainer.ppo.core_algos import register_adv_est

from trainer.rewards import leave_one_out_advantages, plain_advantages

Floats = NDArray[np.float64]


def turns_of(mask: torch.Tensor) -> torch.Tensor:
    """The turn that each token belongs to, from 0, as int64 of the mask's shape [conversations, tokens]; -1 where a
    token was not generated.
    """
    ones = mask.bool()
    begins = ones.clone()
    begins[:, 1:] &= ~ones[:, :-1]
    return torch.where(ones, begins.long().cumsum(dim=1) - 1, -1)


def by_turn(
    token_rewards: torch.Tensor, mask: torch.Tensor, groups: Sequence[Any], compare: Callable[..., Floats]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Advantages and returns of each token: those of its turn. Shapes [conversations, tokens], 0 outside of turns.

    A turn's return is its own reward: what later turns bring is in it already, where credit is shared. `compare` is
    an estimator of `trainer.rewards`.
    """
    turns = turns_of(mask)
    count = max(int(turns.max()) + 1, 1)
    rewards = np.full((len(mask), count), np.nan)
    for turn in range(count):
        there = turns == turn
        summed = torch.where(there, token_rewards, 0).sum(dim=1).double().cpu().numpy()
        rows = there.any(dim=1).cpu().numpy()
        rewards[rows, turn] = summed[rows]
    advantages = torch.from_numpy(compare(rewards, list(groups))).to(token_rewards)
    returns = torch.from_numpy(np.nan_to_num(rewards)).to(token_rewards)
    place = turns.clamp(min=0)
    inside = mask.to(token_rewards)
    return advantages.gather(1, place) * inside, returns.gather(1, place) * inside


@register_adv_est("assay_turn")
def turn_advantage(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: Any, config: Any = None, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """GRPO turn by turn: a turn against the same turn of the other candidates."""
    return by_turn(token_level_rewards, response_mask, index, plain_advantages)


@register_adv_est("assay_leave_one_out")
def leave_one_out_advantage(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: Any, config: Any = None, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """TRLOO: a turn against the mean of the same turn of the *other* candidates."""
    return by_turn(token_level_rewards, response_mask, index, leave_one_out_advantages)
