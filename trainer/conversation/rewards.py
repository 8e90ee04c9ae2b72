"""What a turn is worth: immediate rewards, their share in the end, and advantages. Pure; arrays are numpy's.

A verdict's facts are turned into a reward by `common.reward`, by the name of one of its functions, with shaping
(critique, C4) where the caller knows more than the evaluator: the best speedup so far. A turn then earns

    immediate_share * immediate + (1 - immediate_share) * final * discount ^ turns left

(requirements, R9: 0.3, 0.7, 0.9). Final is what the best kernel of the conversation is worth by the reward of the
agent whose turn it is: agents with different rewards share a conversation, and never each other's units. Where
nothing could be judged there is no reward, which is not 0: that turn's tokens are to be left out of the loss.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from common.contract import Reward, RewardName, RewardTerm, Settings, Verdict
from common.facts import facts_of, measures_of
from common.reward import REWARD_VERSION, ComponentSettings
from common.reward import reward as reward_of
from trainer.config.schema import FlowSection as FlowSection
from trainer.config.schema import RewardSection as RewardSection
from trainer.conversation.conversation import AgentName, Attempt, Conversation
from trainer.errors import ConfigurationError

Floats = NDArray[np.float64]
_TINY: Final = 1e-6


@dataclass(frozen=True)
class RewardSettings:
    """Which reward, and what a turn earns that has no verdict of its own."""

    name: RewardName = RewardName.WEIGHTED
    components: ComponentSettings = field(default_factory=ComponentSettings)
    """Weights and penalties; matters to the reward `components` only."""
    format_error: float = 0.0
    """For an answer without a kernel; at most 0."""

    def __post_init__(self) -> None:
        if not self.format_error <= 0:
            raise ValueError(f"format_error is {self.format_error}; an answer without a kernel earns nothing")


@dataclass(frozen=True)
class CreditSettings:
    """How a turn shares in what its conversation was good for (R9)."""

    immediate_share: float = 0.3
    discount: float = 0.9
    """For each turn that was left."""
    shared: bool = True
    """False: each turn earns its own reward only."""
    gain: bool = False
    """True: an Optimizer's own reward is its gain, what its kernel is worth by its reward less what the best kernel
    before it is worth by the same. A kernel that was there before is worth what it was worth then."""

    def __post_init__(self) -> None:
        if not (0 <= self.immediate_share <= 1 and 0 < self.discount <= 1):
            raise ValueError(f"immediate_share {self.immediate_share} and discount {self.discount} are no shares")


@dataclass(frozen=True)
class Credit:
    """What one turn earns in the end, and why."""

    value: float
    immediate: float
    final: float
    turns_left: int
    """Kernels that came after this one."""
    explanation: str


def reward_settings(section: RewardSection) -> RewardSettings:
    """As a configuration says. Raises ConfigurationError for shaping that the reward `components` does not know, and
    for a reward that no run can measure.
    """
    if section.name is RewardName.COVERAGE:
        raise ConfigurationError(
            "reward.name coverage cannot be learned from: only the host tier measures it (docs/rewards.md).",
            "Set reward.name to weighted, gated, components, speedup or, on a GPU, sol.",
        )
    known = [one.name for one in fields(ComponentSettings)]
    changes: dict[str, Any] = dict(section.shaping)
    if unknown := sorted(changes.keys() - set(known)):
        near = get_close_matches(unknown[0], known, n=1)
        meant = f"Did you mean {near[0]}?" if near else f"It may set {', '.join(known)}."
        raise ConfigurationError(f"reward.shaping has no {unknown[0]}.", meant)
    try:
        components = replace(ComponentSettings(), **changes)
    except ValueError as error:
        raise ConfigurationError(f"reward.shaping: {error}.", "Change one of these weights.") from error
    return RewardSettings(section.name, components, section.format_error)


def credit_settings(section: FlowSection) -> CreditSettings:
    """As a configuration says."""
    return CreditSettings(
        section.immediate_share, section.discount, section.credit, section.optimizer_earns == "gain"
    )


def immediate_reward(
    verdict: Verdict, settings: RewardSettings, grading: Settings, previous_best_speedup: float | None = None
) -> Reward | None:
    """The reward of a verdict's facts; None where the kernel was not judged (`unsupported`).

    `grading`: the settings that the submission was sent with. `previous_best_speedup`: of the conversation so far.
    Raises ConfigurationError where this reward cannot be measured in this run at all.
    """
    if not verdict.status.carries_reward:
        return None
    facts = facts_of(
        status=verdict.status,
        compilation=verdict.compile,
        correctness=verdict.correctness,
        timing=verdict.timing,
        profile=verdict.profile,
        settings=grading,
        measurable=measures_of(verdict.backend, grading, verdict.status, verdict.profile),
        previous_best_speedup=previous_best_speedup,
    )
    found = reward_of(settings.name, facts, settings.components)
    if found.value is None:
        raise ConfigurationError(
            f"The reward {settings.name} cannot be measured on the backend {verdict.backend}: {found.reason}",
            "Set reward.name to one that it can measure: weighted, gated, components or speedup.",
        )
    return found


def format_reward(problem: str, settings: RewardSettings) -> Reward:
    """The reward of an answer without a kernel."""
    return _flat(settings, "format", settings.format_error, f"No kernel: {problem}")


def repeat_reward(attempt: int, settings: RewardSettings) -> Reward:
    """The reward of a kernel that was there before: it shows nothing new, and the final reward is shared all the
    same.
    """
    return _flat(settings, "repeat", 0.0, f"0: this kernel is the one of attempt {attempt}.")


def _flat(settings: RewardSettings, name: str, value: float, said: str) -> Reward:
    term = RewardTerm(name=name, value=value, weight=1.0, contribution=value, explanation=said)
    return Reward(name=settings.name, version=REWARD_VERSION, value=value, maximum=1.0, terms=(term,))


def credits_of(conversation: Conversation, settings: CreditSettings) -> tuple[Credit | None, ...]:
    """What each attempt of a conversation that is over earns; None where it was not judged.

    Raises ValueError for a conversation that still goes on.
    """
    if conversation.ended is None:
        raise ValueError(f"conversation {conversation.id} is not over: its final reward is not known yet")
    judged = [attempt for attempt in conversation.attempts if attempt.tested is not None]
    finals = {agent: conversation.final_reward_to(agent) or 0.0 for agent in AgentName}
    return tuple(
        _credit(
            attempt,
            _gain(conversation, attempt) if settings.gain else attempt.value,
            len(judged) - 1 - attempt.number,
            finals[attempt.written.agent],
            settings,
        )
        for attempt in judged
    )


def _gain(conversation: Conversation, attempt: Attempt) -> float | None:
    """What an Optimizer's kernel is worth beyond the best before it; the reward of a Generator's."""
    agent = attempt.written.agent
    if agent is not AgentName.OPTIMIZER or attempt.value is None:
        return attempt.value
    same = attempt if attempt.repeats is None else conversation.attempts[attempt.repeats]
    # An answer without a kernel is none: what it cost the Generator is nothing that an Optimizer could gain.
    kernels = (one for one in conversation.attempts[: attempt.number] if one.written.source is not None)
    before = (one.value_to(agent) for one in kernels)
    return (same.value_to(agent) or 0.0) - max((value for value in before if value is not None), default=0.0)


def _credit(
    attempt: Attempt, own: float | None, turns_left: int, final: float, settings: CreditSettings
) -> Credit | None:
    if own is None:
        return None
    if not settings.shared:
        gained = settings.gain and attempt.written.agent is AgentName.OPTIMIZER
        said = "what it gained over the best kernel before it" if gained else "its own reward"
        return Credit(own, own, 0.0, turns_left, f"{own:.4g}: {said}.")
    share = settings.immediate_share
    value = share * own + (1 - share) * final * settings.discount**turns_left
    said = (
        f"{value:.4g} = {share:g} x {own:.4g} (its own reward) + {1 - share:g} x {final:.4g} (the best of the "
        f"conversation) x {settings.discount:g}^{turns_left} (turns left)."
    )
    return Credit(value, own, final, turns_left, said)


def plain_advantages(rewards: Floats, groups: Sequence[Any], *, scaled: bool = True) -> Floats:
    """Each turn against the same turn of its group: minus the group's mean, over its standard deviation.

    `rewards`: float64[conversations, turns], NaN for none. `groups`: the task of each conversation. Returns the same
    shape, 0 where there is no reward and where nothing can be compared. `scaled` False leaves out the division.
    Source: GRPO (Shao et al. 2024, section 4.1), turn by turn.
    """
    advantages = np.zeros_like(rewards)
    for rows, column, there in _compared(rewards, groups):
        values = rewards[rows, column][there]
        apart = values - values.mean()
        advantages[rows[there], column] = apart / (values.std(ddof=1) + _TINY) if scaled else apart
    return advantages


def leave_one_out_advantages(rewards: Floats, groups: Sequence[Any]) -> Floats:
    """Each turn against the mean of the *others'* same turn: unbiased, since its own reward is not in its baseline.

    Arguments and shapes as for `plain_advantages`. Source: RLOO (Kool et al. 2019; Ahmadian et al. 2024), turn by
    turn as in TRLOO (Dr. Kernel, 2026).
    """
    advantages = np.zeros_like(rewards)
    for rows, column, there in _compared(rewards, groups):
        values = rewards[rows, column][there]
        advantages[rows[there], column] = (values - values.mean()) * len(values) / (len(values) - 1)
    return advantages


def _compared(rewards: Floats, groups: Sequence[Any]) -> list[tuple[NDArray[np.intp], int, NDArray[np.bool_]]]:
    """For each group and turn with two rewards at least: its rows, the turn, and which of the rows have one."""
    if rewards.ndim != 2 or len(groups) != len(rewards):
        raise ValueError(f"rewards of shape {rewards.shape} do not fit {len(groups)} groups")
    members: dict[Any, list[int]] = {}
    for row, group in enumerate(groups):
        members.setdefault(group, []).append(row)
    found = []
    for rows in (np.array(found) for found in members.values()):
        for column in range(rewards.shape[1]):
            there = ~np.isnan(rewards[rows, column])
            if there.sum() > 1:
                found.append((rows, column, there))
    return found
