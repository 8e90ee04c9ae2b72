"""Which GPUs an agent has for what: counts for all nodes together become counts for each node, or are refused.

verl asks Ray for as many GPUs on every node, so each count must be spread evenly; what cannot be placed would wait
without end.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Gpus:
    """GPUs of one agent on each node. On a CPU Ray plans with one that is made up."""

    updates: int
    """Update the policy; those of agents without GPUs of their own are the same."""
    critic: int
    """Update the critic alone; 0 where it takes turns with the policy, or there is none."""
    generation: int
    """Generate: as those that update where the layout is `shared`, otherwise only for this agent."""


def gpus_of(config: Any, role: str) -> Gpus:
    """The GPUs of an agent on each node, by a `TrainingConfig`, which itself is checked with this.

    Raises ValueError, which names the setting, for what cannot be placed.
    """
    resources = config.resources
    if resources.device == "cpu":
        return Gpus(1, 0, 1)
    nodes: int = resources.nodes

    def each(name: str, agents: int = 1) -> int:
        count: int = getattr(resources, name)
        if count % (nodes * agents):
            among = [f"{nodes} nodes"] * (nodes > 1) + [f"{agents} agents"] * (agents > 1)
            raise ValueError(f"resources.{name} {count} cannot be shared out evenly among {' of '.join(among[::-1])}")
        return count // (nodes * agents)

    own = getattr(resources, f"{role}_gpus") is not None
    there = each(f"{role}_gpus") if own else resources.gpus_per_node
    made = Gpus(there, 0, there)
    if resources.layout == "split":
        # Servers cannot take turns: each agent has its own, of the workers that are there for all of them.
        agents = 1 if own else len(config.roles)
        critic = each("critic_workers") if config.algorithm.learns_critic else 0
        made = Gpus(each("actor_workers"), critic, each("rollout_workers", agents))
        needed = made.updates + made.critic + made.generation * agents
        if needed > there:
            raise ValueError(
                f"resources: {resources.rollout_workers} rollout, {resources.actor_workers} actor and "
                f"{critic * nodes} critic workers{f' of the {role}' if own else ''} need {needed * nodes} GPUs, and "
                f"there are {there * nodes}; use fewer, or layout shared"
            )
    if made.generation % config.rollout.tensor_parallel:
        raise ValueError(
            f"rollout.tensor_parallel {config.rollout.tensor_parallel} does not divide the {made.generation} GPUs of "
            f"a node on which the {role} generates"
        )
    return made
