"""Advantage estimators of our own: what a turn earned is its return, and no reward to be added to other turns'.

A turn's credit already holds what its conversation was good for in the end (requirements, R9). verl adds up all
rewards of a sequence; a policy would then earn the end once for each turn that it takes, and learn to take as many as
it may: never a kernel that is good enough to end the conversation. Here nothing is carried from one turn to another.

verl hands over padded tensors; a turn is a run of ones in the response mask, because what stands between two answers
of an agent is never generated. The arithmetic of comparisons is `trainer.rewards`'.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from verl.trainer.ppo.core_algos import register_adv_est
from verl.utils.torch_functional import masked_whiten

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


def rewards_of(token_rewards: torch.Tensor, mask: torch.Tensor) -> Floats:
    """What each turn earned, as float64[conversations, turns]; NaN where there is no turn."""
    turns = turns_of(mask)
    count = max(int(turns.max()) + 1, 1)
    rewards = np.full((len(mask), count), np.nan)
    for turn in range(count):
        there = turns == turn
        summed = torch.where(there, token_rewards, 0).sum(dim=1).double().cpu().numpy()
        rows = there.any(dim=1).cpu().numpy()
        rewards[rows, turn] = summed[rows]
    return rewards


def by_turn(
    token_rewards: torch.Tensor, mask: torch.Tensor, groups: Sequence[Any], compare: Callable[..., Floats]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Advantages and returns of each token: those of its turn. Shapes [conversations, tokens], 0 outside of turns.

    A turn's return is its own reward: what later turns bring is in it already, where credit is shared. `compare` is
    an estimator of `trainer.rewards`.
    """
    turns, rewards = turns_of(mask), rewards_of(token_rewards, mask)
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


@register_adv_est("assay_group")
def group_advantage(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: Any, config: Any = None, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """GRPO (Shao et al. 2024, section 4.1): a conversation, by the mean of its turns, against others of its task."""
    rewards = rewards_of(token_level_rewards, response_mask)
    there = ~np.isnan(rewards)
    means = np.where(there, rewards, 0).sum(axis=1, keepdims=True) / np.maximum(there.sum(axis=1, keepdims=True), 1)
    means[~there.any(axis=1)] = np.nan
    inside = response_mask.to(token_level_rewards)
    advantages = torch.from_numpy(plain_advantages(means, list(index))).to(token_level_rewards)
    return advantages * inside, torch.from_numpy(np.nan_to_num(means)).to(token_level_rewards) * inside


def turn_gae(
    token_level_rewards: torch.Tensor,
    values: torch.Tensor,
    response_mask: torch.Tensor,
    gamma: float,
    lam: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Generalized advantage estimation (Schulman et al. 2016, equation 16), each turn an episode of its own.

    All of shape [conversations, tokens]. Returns whitened advantages, and the returns that the critic is to learn.
    """
    inside = response_mask.to(token_level_rewards)
    estimated = torch.zeros_like(values[:, 0])
    following = torch.zeros_like(estimated)
    advantages = torch.zeros_like(values)
    for place in reversed(range(values.shape[1])):
        # Outside of turns both become 0: a turn's last token is followed by nothing.
        surprise = token_level_rewards[:, place] + gamma * following - values[:, place]
        estimated = (surprise + gamma * lam * estimated) * inside[:, place]
        following = values[:, place] * inside[:, place]
        advantages[:, place] = estimated
    return masked_whiten(advantages, response_mask), (advantages + values) * inside
