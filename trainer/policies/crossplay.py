"""Cross-play: each agent with the other's earlier checkpoints, as the measure of specialisation.

Two agents that learned together may have learned only to please each other. Playing every Generator with every
Optimizer tells: where a late Optimizer is good with any Generator it has learned to optimise; where only pairs of the
same age are good, the two share a convention (Lowe et al. 2019, "On the pitfalls of measuring emergent
communication"; Carroll et al. 2019, section 4).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from trainer.conversation.conversation import AgentName, Conversation
from trainer.conversation.episode import Policy
from trainer.data.tasks import Task
from trainer.errors import OracleError

Play = Callable[[Task, Mapping[AgentName, Policy], int], Awaitable[Conversation]]
"""Plays one task to its end with these policies and this seed; `trainer.conversation.episode.play` with the rest
bound."""


@dataclass(frozen=True)
class Pairing:
    """One Generator with one Optimizer, on all tasks."""

    generator: str
    optimizer: str
    final_reward: float | None
    """Mean over the tasks; None where none could be judged."""
    pass_rate: float | None
    gain: float | None
    """Mean of what the Optimizer added to the Generator's first kernel's reward."""
    conversations: int
    left_out: int
    """Tasks without a verdict, by the evaluator's own fault or since their prompt left the Generator no room."""


async def cross_play(
    tasks: Sequence[Task],
    generators: Mapping[str, Policy],
    optimizers: Mapping[str, Policy],
    play: Play,
    *,
    seed: int = 0,
) -> tuple[Pairing, ...]:
    """Every Generator with every Optimizer on the same tasks and seeds, in the order of the mappings.

    The names are those of checkpoints, for example their steps. Tasks are played one after another, so `play` bounds
    what is under way.
    """
    pairings = []
    for generator, first in generators.items():
        for optimizer, second in optimizers.items():
            policies = {AgentName.GENERATOR: first, AgentName.OPTIMIZER: second}
            played: list[Conversation] = []
            left_out = 0
            for number, task in enumerate(tasks):
                try:
                    played.append(await play(task, policies, seed + number))
                except OracleError:
                    left_out += 1
            pairings.append(pairing_of(generator, optimizer, played, left_out))
    return tuple(pairings)


def specialisation(pairings: Sequence[Pairing]) -> float | None:
    """How much better agents of the same checkpoint play together than with others: the mean final reward on the
    diagonal less that off it. None where one of the two is empty.
    """
    same = [one.final_reward for one in pairings if one.generator == one.optimizer and one.final_reward is not None]
    other = [one.final_reward for one in pairings if one.generator != one.optimizer and one.final_reward is not None]
    return fmean(same) - fmean(other) if same and other else None


def pairing_of(generator: str, optimizer: str, played: Sequence[Conversation], left_out: int) -> Pairing:
    """What one Generator and one Optimizer came to on the tasks that they played."""
    rewards = [one.final_reward for one in played if one.final_reward is not None]
    gains = []
    for one in played:
        first = one.attempts[0].value if one.attempts else None
        if first is not None and one.final_reward is not None:
            gains.append(one.final_reward - first)
    return Pairing(
        generator,
        optimizer,
        fmean(rewards) if rewards else None,
        fmean(any(attempt.passed for attempt in one.attempts) for one in played) if played else None,
        fmean(gains) if gains else None,
        len(played),
        left_out,
    )
