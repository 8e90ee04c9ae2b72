"""What an evaluation found, as its JSON has it: frozen, versioned, and without a number that nobody measured."""

import math
from typing import Final, Literal, Self

from pydantic import model_validator

from common.wire import Wire
from trainer.evaluation.task_sets import SetName

FORM: Final = "assay-evaluation-1"
"""Of the JSON: what changes its meaning gets another number."""


class Figure(Wire):
    """One number with its 95 % interval; or none, and why."""

    value: float | None
    low: float | None = None
    """Ends of the interval; null where there are too few tasks for one."""
    high: float | None = None
    of: int = 0
    """How many conversations, kernels, tasks or problems it is taken over."""
    why_not: str | None = None
    """Why there is no value; null where there is one."""

    @model_validator(mode="after")
    def _value_or_reason(self) -> Self:
        if (self.value is None) != (self.why_not is not None):
            raise ValueError("a figure has either a value or a reason why it has none")
        if (self.low is None) != (self.high is None) or (self.value is None and self.low is not None):
            raise ValueError("an interval has two ends, and a value between them")
        if any(one is not None and not math.isfinite(one) for one in (self.value, self.low, self.high)):
            raise ValueError("a figure is a finite number, and so are its ends")
        return self


class ModelFacts(Wire):
    """The weights of one agent."""

    agent: Literal["generator", "optimizer"]
    folder: str
    """Name of its folder, without the path to it."""
    sha256: str
    """Of its weights, tokenizer and configuration; adapters included."""
    parameters: int | None
    """Null where the weights are no safetensors."""


class ProblemResult(Wire):
    """What one system did with one problem, all its tasks of a set together."""

    set: SetName
    problem: str
    conversations: int
    """Judged ones."""
    passed: int
    speedup: float | None
    """Median over the right ones: over PyTorch where a GPU timed them, else as estimated over the naive kernel."""


class SystemResult(Wire):
    """What one system did."""

    name: str
    origin: str
    """Where it comes from, in words."""
    models: tuple[ModelFacts, ...]
    """Empty for a script."""
    agents: int
    """1 where the Generator writes all kernels, 2 with an Optimizer."""
    max_turns: int
    """Most kernels of a conversation."""
    conversations: int
    """Asked for."""
    judged: int
    """What all figures are taken over."""
    faults: int
    """Left out: an evaluation failed on the evaluator's side. None of them counts against the system."""
    unsupported: int
    """Left out: no kernel was right, and one of them the evaluator cannot run."""
    unasked: int = 0
    """Left out: the first prompt leaves no room for an answer in the model's context."""
    figures: dict[str, Figure]
    """Over all sets together, by name; `trainer.evaluation.measures.named` says what each is."""
    sets: dict[SetName, dict[str, Figure]]
    """The same for each set."""
    problems: tuple[ProblemResult, ...]
    pass_at: tuple[Figure, ...]
    """pass@1, pass@2 and so on, over all sets together."""


class PairedFigure(Wire):
    """How a measure of the second system differs from that of the first, over the tasks that both were judged on."""

    name: str
    first: float
    second: float
    difference: Figure
    """Second less first; of `speedup/…` second over first, as a geometric mean over the tasks that both solved."""


class McNemarResult(Wire):
    """Of the first answers to each task: is one system right where the other is not?"""

    both: int
    only_first: int
    only_second: int
    neither: int
    p: float
    """Two-sided, exact."""
    p_adjusted: float
    """For all comparisons of the report together (Holm)."""


class SystemComparison(Wire):
    """Two systems on the same tasks."""

    first: str
    second: str
    set: SetName | None
    """Null: all sets together."""
    tasks: int
    """On which both were judged."""
    left_out: int
    """Tasks that only one of them, or neither, could be judged on."""
    figures: tuple[PairedFigure, ...]
    mcnemar: McNemarResult


class PairingResult(Wire):
    """The Generator of one system with the Optimizer of one system."""

    generator: str
    optimizer: str
    reward: float | None
    """Mean final reward; null where none could be judged."""
    pass_rate: float | None
    gain: float | None
    """Mean of what the Optimizer added to the first kernel's reward."""
    conversations: int
    left_out: int


class CrossPlayResult(Wire):
    """Each Generator with each Optimizer."""

    pairings: tuple[PairingResult, ...]
    specialisation: float | None
    """Mean reward of agents of one system less that of agents of two."""


class FirstPasses(Wire):
    """Conversations of a training run until the first one with a right kernel."""

    run: str
    """Its folder's name."""
    warm_start: str | None
    """What its models had been taught before, in words; null for nothing."""
    conversations: int
    """In the transcripts that the run kept."""
    first: int | None
    """Number of the first with a right kernel, from 1; null where there was none."""
    problems: dict[str, int | None]
    """The same among the conversations of each problem."""


class EvaluationReport(Wire):
    """Everything that an evaluation found."""

    form: Literal["assay-evaluation-1"] = FORM
    made_at: str
    """ISO 8601, UTC."""
    evaluator: str
    """Version of what judged."""
    backends: tuple[str, ...]
    """Where kernels ran: `gpu`, `sim`."""
    devices: tuple[str, ...]
    """GPUs that timed them."""
    seed: int
    samples: int
    """Conversations for each task."""
    temperature: float
    """Of the models' sampling."""
    verification: str
    clustered_by: Literal["task", "problem"]
    """What intervals take as one draw."""
    settings: dict[str, str]
    """What every system was asked and graded with."""
    sets: dict[SetName, int]
    """Tasks of each."""
    tasks: dict[str, str]
    """Set of each task, by its id."""
    systems: tuple[SystemResult, ...]
    comparisons: tuple[SystemComparison, ...]
    cross_play: CrossPlayResult | None = None
    first_passes: tuple[FirstPasses, ...] = ()
    warnings: tuple[str, ...] = ()
    """What a reader of the numbers should know."""
