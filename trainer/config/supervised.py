"""Settings of supervised learning: the warm start of small models, and fine-tuning on graded kernels."""

from typing import Literal

from pydantic import Field

from trainer import bounds
from trainer.config.section import Section


class WarmStartSection(Section):
    """A few supervised steps on templated kernels before the reinforcement learning [C10]."""

    steps: int = Field(default=0, ge=0, le=bounds.MOST_STEPS)
    """Optimizer steps; 0 starts from the model as it is."""
    batch_size: int = Field(default=16, ge=1, le=bounds.MOST_IN_A_BATCH)
    """Examples a step."""
    learning_rate: float = Field(default=3e-4, ge=bounds.LEAST_RATE, le=1)
    """Step size of AdamW."""
    right_share: float = Field(default=0.5, gt=0, le=1)
    """Share of right kernels among the examples; the others have typical faults."""


class LoraSection(Section):
    """Low-rank adapters (Hu et al. 2021) of every linear layer but the head."""

    rank: int = Field(default=16, ge=1, le=bounds.MOST_RANK)
    """Rank of each; an adapter of SmolLM2-135M takes 0.6 MiB for each."""
    alpha: float = Field(default=32.0, ge=bounds.LEAST_CLIP, le=bounds.MOST_ALPHA)
    """What they add is multiplied by `alpha / rank`."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Share of their inputs that is left out at random while they are tuned."""


class SftSection(Section):
    """Supervised fine-tuning on graded kernels before the reinforcement learning [R5, R6, C10, T11]."""

    examples: int = Field(default=0, ge=0, le=bounds.MOST_EXAMPLES)
    """Examples of each agent; 0 leaves out data, fine-tuning and what agents learn from each other
    [R5: 10,000 for the Generator, 8,000 for the Optimizer, 5,000 for a Tester]."""
    epochs: int = Field(default=2, ge=1, le=bounds.MOST_PASSES)
    """Passes over the examples [R5: 2 to 3]."""
    method: Literal["full", "lora", "qlora"] = "full"
    """`full` tunes all weights; `lora` keeps them as they are and tunes adapters, which are kept beside the model and
    merged into it for what follows; `qlora` has what lies under them in 4 bits meanwhile (Dettmers et al. 2023), and
    needs bitsandbytes [T11]."""
    lora: LoraSection = LoraSection()
    batch_size: int = Field(default=4, ge=1, le=bounds.MOST_IN_A_BATCH)
    """Examples that are on the device at once."""
    gradient_accumulation_steps: int = Field(default=4, ge=1, le=bounds.MOST_IN_A_BATCH)
    """Batches that make one optimizer step."""
    learning_rate: float = Field(default=2e-5, ge=bounds.LEAST_RATE, le=1)
    """Largest step size of AdamW; it rises at first and falls to 0 at the last step."""
    improvement: float = Field(default=1.1, gt=1, le=bounds.MOST_SPEEDUP)
    """How many times as fast as the kernel that it answers a right kernel must be in an Optimizer's
    example, and in those that teach an agent alone to improve its own kernels."""
    held_out_problems: tuple[str, ...] = ()
    """Problems of which no example is; none named is a fifth of all, by the hash of their ids."""
    evaluation_tasks: int = Field(default=32, ge=1, le=bounds.MOST_TASKS)
    """Held-out tasks on which each epoch is measured: of problems with examples, and as many of those without."""
    rollouts: tuple[str, ...] = ()
    """Folders of earlier runs whose agents' kernels are graded and learned from too."""
    cross_conversations: int = Field(default=64, ge=0, le=bounds.MOST_TASKS)
    """Conversations of the tuned agents, of which both learn the successful ones; 0 leaves that out [R6]."""
    cross_epochs: int = Field(default=1, ge=1, le=bounds.MOST_PASSES)
    """Passes over what they have learned from each other [R6: 1]."""

    @property
    def with_adapters(self) -> bool:
        """Whether adapters are tuned, over weights that stay as they are."""
        return self.method != "full"
