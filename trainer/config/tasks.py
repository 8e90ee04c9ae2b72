"""What is asked of the agents, as it is configured."""

from typing import Literal, Self

from pydantic import Field, model_validator

from trainer import bounds
from trainer.config.section import Section


class TasksSection(Section):
    """What is asked of the agents. The split into training and held-out tasks is fixed by the hash of a task's id."""

    problems: tuple[str, ...] = ()
    """Ids of the evaluator's problems to train on; none names all of them."""
    operations: tuple[str, ...] = ()
    """Families of operations to ask as well, which the evaluator gets with each kernel as an expression at stated
    shapes; `all` names all of them. The simulator alone judges them."""
    references: tuple[str, ...] = ()
    """Files of others that state a problem (KernelBench, LeetGPU, Tensara, FlashInfer Trace), or folders of them, to
    ask as well in reinforcement learning. A fifth of the files, by the hash of their texts, is held out whole."""
    variants: int = Field(default=32, ge=1, le=bounds.MOST_VARIANTS)
    """Wordings for each problem."""
    wording: Literal["full", "brief"] = "full"
    """How much a prompt says; `brief` is two lines, for very small models."""
    held_out_share: float = Field(default=0.2, gt=0, lt=1)
    """Share of the tasks that is only ever used to evaluate."""
    held_out: int = Field(default=200, ge=1, le=bounds.MOST_TASKS)
    """Most held-out tasks that one evaluation asks."""

    @model_validator(mode="after")
    def _whole_references(self) -> Self:
        if self.references and self.wording == "brief":
            raise ValueError("references are told whole: set wording to full, or leave them out")
        return self
