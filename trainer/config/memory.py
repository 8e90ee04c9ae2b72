"""What each GPU of a run has to hold, by the placement of its models: a sum over all GPUs says nothing of one.

Counted is what stays: weights, gradients, the optimizer's moments, and what servers reserve for themselves.
Activations are not, so a tenth of each GPU is left for them (`USABLE_SHARE`); gradient checkpointing and small
micro-batches keep them near that, long sequences do not.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from trainer.config.placement import Gpus, gpus_of, has_reference
from trainer.config.schema import AgentRole, TrainingConfig, TunedRole

TRAINED_BYTES: Final = 16
"""A parameter that is trained: weight, gradient and AdamW's two moments, float32 each (Rajbhandari et al. 2020, ZeRO,
section 3.1)."""
UNDER_ADAPTERS_BYTES: Final = 4
"""A frozen parameter under adapters: verl 0.9.1 loads every model that is trained in float32
(`verl.workers.engine.fsdp.transformer_impl`); the adapters themselves are small beside it."""
NF4_BYTES: Final = 4.127 / 8
"""A frozen parameter in NF4, with its part of the constants of each block of 64 (Dettmers et al. 2023, "QLoRA",
section 3)."""
_LARGEST_VOCABULARY: Final = 152_064
"""Of Qwen2.5, which has more tokens than most."""
USABLE_SHARE: Final = 0.9
"""Of a GPU's memory; the rest is for activations and the driver."""


@dataclass(frozen=True)
class GpuLoad:
    """GPUs of one node that hold the same."""

    use: str
    """What they do, for a person."""
    count: int
    """How many of each node."""
    state_bytes: int
    """What stays on each of them."""
    server_share: float = 0.0
    """Share of its memory that servers take for weights and cache, all of them together."""
    server_weights_bytes: int = 0
    """Weights that must fit into one server's part of it."""
    servers: int = 1
    """Servers on each of them."""

    by_turns: bool = False
    """Whether the state is on the host while servers are awake, and servers sleep while it is not."""

    def needed_bytes(self, memory_bytes: int) -> int:
        """What it takes on a GPU of this size: a server's part grows with it."""
        parts = (self.state_bytes, int(self.server_share * memory_bytes))
        return max(parts) if self.by_turns else sum(parts)

    def fits(self, memory_bytes: int) -> bool:
        """Whether a GPU of this size holds it."""
        part = self.server_share * memory_bytes / self.servers
        return (
            self.needed_bytes(memory_bytes) <= USABLE_SHARE * memory_bytes
            and self.server_weights_bytes <= USABLE_SHARE * part
        )

    @property
    def least_bytes(self) -> int | None:
        """The smallest GPU that holds it; None where servers leave no room on any."""
        left = USABLE_SHARE if self.by_turns else USABLE_SHARE - self.server_share
        if self.server_share > USABLE_SHARE or (self.state_bytes and left <= 0):
            return None
        held = self.state_bytes / left if self.state_bytes else 0.0
        part = USABLE_SHARE * self.server_share / self.servers
        served = self.server_weights_bytes / part if self.server_weights_bytes else 0.0
        # One more: what is rounded down would be a byte short.
        return int(max(held, served)) + 1


def gpu_loads(config: TrainingConfig, parameters: Mapping[TunedRole, int]) -> tuple[GpuLoad, ...]:
    """What the GPUs of each node hold. `parameters`: how many each agent's model has.

    Agents without GPUs of their own update on the same ones, so these hold both. Models that are kept on the host
    while they are not used (`model.offload`) are on a GPU one at a time, and servers that share it sleep meanwhile.
    The reference is streamed from the host's memory, layer by layer, wherever it is (`host_bytes`).
    """
    placed = {role: gpus_of(config.for_agent(role), role) for role in config.roles}
    own = config.resources.generator_gpus is not None
    groups = [(role,) for role in config.roles] if own else [config.roles]
    return tuple(load for roles in groups for load in _of_group(config, roles, placed, parameters))


def tuning_load(config: TrainingConfig, parameters: Mapping[TunedRole, int]) -> GpuLoad | None:
    """What supervised fine-tuning holds on the one GPU that it uses, before anything else is placed: the agents are
    tuned one after another. None where a run has none. With adapters the weights under them are in bfloat16; with
    `sft.method=qlora` those of the linear layers are in NF4, and embeddings and head in bfloat16.
    """
    if not config.sft.examples or config.resources.device == "cpu":
        return None
    largest = max(parameters[role] for role in config.tuned_roles)
    if config.sft.method == "full":
        return GpuLoad("tune one agent after the other (sft)", 1, largest * TRAINED_BYTES)
    adapters = adapter_parameters(largest, config.sft.lora.rank) * TRAINED_BYTES
    words = _word_parameters(largest) if config.sft.method == "qlora" else largest
    frozen = int(words * 2 + (largest - words) * NF4_BYTES)
    return GpuLoad("tune adapters of one agent after the other (sft)", 1, frozen + adapters)


def adapter_parameters(parameters: int, rank: int) -> int:
    """How many parameters adapters have at most on every linear layer of a model of this size.

    A layer of width h has about 12 h² parameters and its adapters 18 h for each rank; a model has about h / 128
    layers (Kaplan et al. 2020, section 3.1), and narrow deep ones are half as wide as that says.
    """
    return int(parameters * 1.5 * rank / (_width(parameters) / 2)) if parameters else 0


def _word_parameters(parameters: int) -> int:
    """How many of them are in embeddings and head at most: two matrices of `_LARGEST_VOCABULARY` rows."""
    return min(parameters, int(2 * _LARGEST_VOCABULARY * _width(parameters)))


def _width(parameters: int) -> float:
    """Of a model that has about h / 128 layers of 12 h² parameters each."""
    return float((parameters * 128 / 12) ** (1 / 3))


def host_bytes(config: TrainingConfig, parameters: Mapping[TunedRole, int]) -> int:
    """What each node keeps in the host's memory for its GPUs: references, and everything trained with offload; and a
    Tester that is a model, which is on one of them.
    """
    whole = 0
    for role in config.roles:
        ours = config.for_agent(role)
        whole += parameters[role] * _frozen_bytes(ours) * has_reference(ours)
        if ours.model.offload:
            whole += parameters[role] * (_policy_bytes(ours) + TRAINED_BYTES * ours.algorithm.learns_critic)
    return whole // config.resources.nodes + tester_bytes(config, parameters)


def tester_bytes(config: TrainingConfig, parameters: Mapping[TunedRole, int]) -> int:
    """What a Tester that is a model takes during the reinforcement learning: it is on the CPU, in float32."""
    return parameters.get("tester", 0) * 4 if config.agents.tester is not None else 0


def _of_group(
    config: TrainingConfig,
    roles: tuple[AgentRole, ...],
    placed: Mapping[AgentRole, Gpus],
    parameters: Mapping[TunedRole, int],
) -> Iterator[GpuLoad]:
    """The GPUs of agents that share them."""
    resources, gpus = config.resources, placed[roles[0]]
    seen = {role: config.for_agent(role) for role in roles}
    names = " and ".join(f"the {role}" for role in roles)
    policies = [parameters[role] * _policy_bytes(seen[role]) for role in roles]
    critics = [parameters[role] * TRAINED_BYTES for role in roles if seen[role].algorithm.learns_critic]
    apart = gpus.critic > 0
    trained = policies if apart else [*policies, *critics]
    updating = _resident(trained, config) // (gpus.updates * resources.nodes)
    if resources.layout == "shared":
        yield _with_servers(f"update {names} and generate", gpus.updates, updating, config, roles, parameters)
        return
    yield GpuLoad(f"update {names}", gpus.updates, updating)
    if apart:
        held = _resident(critics, config) // (gpus.critic * resources.nodes)
        yield GpuLoad(f"update the critic of {names}", gpus.critic, held)
    if gpus.reference:
        # A layer at a time; the weights are in the host's memory.
        yield GpuLoad(f"compare {names} with the reference", gpus.reference, 0)
    for role in roles:
        use = f"generate for the {role}"
        yield _with_servers(use, placed[role].generation, 0, config, (role,), parameters)


def _with_servers(
    use: str,
    count: int,
    state_bytes: int,
    config: TrainingConfig,
    roles: tuple[AgentRole, ...],
    parameters: Mapping[TunedRole, int],
) -> GpuLoad:
    rollout = config.rollout
    weights = [parameters[role] * _frozen_bytes(config.for_agent(role)) // rollout.tensor_parallel for role in roles]
    if rollout.name == "hf":
        return GpuLoad(use, count, state_bytes + sum(weights))
    turns = config.model.offload and config.resources.layout == "shared"
    return GpuLoad(use, count, state_bytes, rollout.memory_share, max(weights), len(roles), turns)


def _resident(each: list[int], config: TrainingConfig) -> int:
    """Of models that are trained on the same GPUs: all of them, or the largest where the others are offloaded."""
    return (max if config.model.offload else sum)(each) if each else 0


def _policy_bytes(config: TrainingConfig) -> int:
    return UNDER_ADAPTERS_BYTES if config.model.lora_rank else TRAINED_BYTES


def _frozen_bytes(config: TrainingConfig) -> int:
    return 4 if config.model.dtype == "float32" else 2
