"""Advantage estimators of our own: what a turn earned is its return, and no reward to be added to other turns'.

A turn's credit already holds what its conversation was good for in the end (requirements, R9). verl adds up all
rewards of a sequence; a policy would then earn the end once for each turn that it takes, and learn to take as many as
it may: never a kernel that is good enough to end the conversation. Here nothing is carried from one turn to another.

verl hands over padded tensors, and the learner which attempt of the conversation each token was generated for
(`numbered`). The arithmetic of comparisons is `trainer.conversation.rewards`'.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from verl.trainer.ppo.core_algos import register_adv_est
from verl.utils.torch_functional import masked_whiten

from trainer.conversation.rewards import leave_one_out_advantages, plain_advantages

Floats = NDArray[np.float64]


_ATTEMPTS: ContextVar[torch.Tensor] = ContextVar("attempts")


@contextmanager
def numbered(attempts: torch.Tensor) -> Iterator[None]:
    """Tell the estimators, inside the block, which attempt each token was generated for: int64[conversations, tokens]
    of the batch that they are asked about. verl hands them nothing of a batch but rewards, mask and groups, and from
    the mask alone an answer that could not be judged looks as if there had been none.
    """
    token = _ATTEMPTS.set(attempts)
    try:
        yield
    finally:
        _ATTEMPTS.reset(token)


def rewards_of(token_rewards: torch.Tensor, attempts: torch.Tensor) -> Floats:
    """What each attempt earned, as float64[conversations, attempts]; NaN where there is none.

    `attempts`: int64[conversations, tokens], -1 for a token that does not count.
    """
    count = max(int(attempts.max()) + 1, 1)
    rewards = np.full((len(attempts), count), np.nan)
    for number in range(count):
        there = attempts == number
        summed = torch.where(there, token_rewards, 0).sum(dim=1).double().cpu().numpy()
        rows = there.any(dim=1).cpu().numpy()
        rewards[rows, number] = summed[rows]
    return rewards


def by_attempt(
    token_rewards: torch.Tensor, mask: torch.Tensor, groups: Sequence[Any], compare: Callable[..., Floats]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Advantages and returns of each token: those of its attempt. Shapes [conversations, tokens], 0 outside of turns.

    A turn's return is its own reward: what later turns bring is in it already, where credit is shared. `compare` is
    an estimator of `trainer.conversation.rewards`. Raises LookupError outside of `numbered`.
    """
    attempts = _counting(mask)
    rewards = rewards_of(token_rewards, attempts)
    advantages = torch.from_numpy(compare(rewards, list(groups))).to(token_rewards)
    returns = torch.from_numpy(np.nan_to_num(rewards)).to(token_rewards)
    place = attempts.clamp(min=0)
    inside = mask.to(token_rewards)
    return advantages.gather(1, place) * inside, returns.gather(1, place) * inside


def _counting(mask: torch.Tensor) -> torch.Tensor:
    return torch.where(mask.bool(), _ATTEMPTS.get().to(mask.device), -1)


@register_adv_est("assay_turn")
def turn_advantage(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: Any, config: Any = None, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """GRPO turn by turn: an attempt against the same attempt of the other candidates."""
    return by_attempt(token_level_rewards, response_mask, index, plain_advantages)


@register_adv_est("assay_leave_one_out")
def leave_one_out_advantage(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: Any, config: Any = None, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """TRLOO: an attempt against the mean of the same attempt of the *other* candidates."""
    return by_attempt(token_level_rewards, response_mask, index, leave_one_out_advantages)


@register_adv_est("assay_group")
def group_advantage(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: Any, config: Any = None, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """GRPO (Shao et al. 2024, section 4.1): a conversation, by the mean of its turns, against others of its task."""
    rewards = rewards_of(token_level_rewards, _counting(response_mask))
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
    # Of one token alone nothing is above or below the mean, and verl's function refuses it.
    whitened = masked_whiten(advantages, response_mask) if inside.sum() > 1 else torch.zeros_like(advantages)
    return whitened, (advantages + values) * inside
