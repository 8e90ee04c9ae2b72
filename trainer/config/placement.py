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
    reference: int = 0
    """Hold the model that the KL distance is taken to, alone; 0 where those that update do that too, or nobody."""


def has_reference(config: Any) -> bool:
    """Whether a model beside the policy is kept that the KL distance is taken to: adapters lie over theirs."""
    return bool(config.algorithm.kl_coefficient > 0 and not config.model.lora_rank)


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
    there = each(f"{role}_gpus") if own else resources.gpus_per_node - resources.evaluator_gpu
    made = Gpus(there, 0, there)
    if resources.layout == "split":
        # Servers cannot take turns: each agent has its own, of the workers that are there for all of them.
        agents = 1 if own else len(config.roles)
        critic = each("critic_workers") if config.algorithm.learns_critic else 0
        reference = each("reference_workers") if has_reference(config) else 0
        made = Gpus(each("actor_workers"), critic, each("rollout_workers", agents), reference)
        needed = made.updates + made.critic + made.generation * agents + made.reference
        if needed > there:
            alone = f", {reference * nodes} reference" if reference else ""
            raise ValueError(
                f"resources: {resources.rollout_workers} rollout, {resources.actor_workers} actor{alone} and "
                f"{critic * nodes} critic workers{f' of the {role}' if own else ''} need {needed * nodes} GPUs, and "
                f"there are {there * nodes}; use fewer, or layout shared"
            )
    if made.generation % config.rollout.tensor_parallel:
        raise ValueError(
            f"rollout.tensor_parallel {config.rollout.tensor_parallel} does not divide the {made.generation} GPUs of "
            f"a node on which the {role} generates"
        )
    return made


def check_placement(config: Any) -> None:
    """Raises ValueError, which names the setting, where the models of a `TrainingConfig` have no place."""
    resources = config.resources
    if resources.gpus_per_node == 0:
        raise ValueError("resources.device cuda needs resources.gpus_per_node of at least 1")
    if resources.evaluator_gpu and resources.ray_address:
        raise ValueError(
            "resources.evaluator_gpu keeps a GPU from the Ray that a run starts; with resources.ray_address tell "
            "it to the cluster: ray start --num-gpus=…"
        )
    if config.rollout.name == "sglang" and resources.layout == "shared" and len(config.roles) > 1:
        raise ValueError(
            "rollout.name sglang cannot generate for two agents with resources.layout shared: verl counts the "
            "servers of each agent from 0 and names those of SGLang by number alone, so that two would have one "
            "name; set rollout.name vllm or hf, resources.layout split, or agents.optimizer null"
        )
    gpus = resources.nodes * (resources.gpus_per_node - resources.evaluator_gpu)
    if gpus == 0:
        raise ValueError("resources.evaluator_gpu keeps the only GPU from the models")
    own = (resources.generator_gpus, resources.optimizer_gpus)
    if (own[0] is None) != (own[1] is None) or (own[1] is not None and config.agents.optimizer is None):
        raise ValueError("resources: generator_gpus and optimizer_gpus belong together, and need both agents")
    if sum(each or 0 for each in own) > gpus:
        raise ValueError(f"resources: the agents need {own[0]} and {own[1]} GPUs, and there are {gpus}")
    seen = [config.for_agent(role) for role in config.roles]
    for ours, role in zip(seen, config.roles, strict=True):
        gpus_of(ours, role)
    if resources.reference_workers and not (resources.layout == "split" and any(map(has_reference, seen))):
        raise ValueError(
            f"resources.reference_workers {resources.reference_workers} needs the layout split, and a model to "
            "compare with beside the policy: algorithm.kl_coefficient above 0, and no adapters (model.lora_rank)"
        )
