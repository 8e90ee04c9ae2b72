"""How many conversations a training run took until a kernel was right, as its transcripts have it."""

from pathlib import Path

from trainer.config.schema import TrainingConfig
from trainer.evaluation.report import FirstPasses
from trainer.reporting.metrics import read_measures
from trainer.reporting.transcripts import read_transcripts


def first_passes_of(run: Path, config: TrainingConfig) -> FirstPasses | None:
    """Of the conversations that a run learned from, in their order; None where it did not keep the transcripts of
    all: what was not kept may have been right. Raises TranscriptError, MetricsError.
    """
    count, first = 0, None
    asked: dict[str, int] = {}
    problems: dict[str, int | None] = {}
    for path in sorted((run / "transcripts").glob("train-*.jsonl")):
        for line in read_transcripts(path):
            count += 1
            problem = line.conversation.task.problem
            asked[problem] = asked.get(problem, 0) + 1
            problems.setdefault(problem, None)
            if any(attempt.passed for attempt in line.conversation.attempts):
                first = first or count
                problems[problem] = problems[problem] or asked[problem]
    played = sum(line.get("conversations", 0) for line in read_measures(run) if line["kind"] == "train")
    if not count or count < played:
        return None
    return FirstPasses(
        run=run.name,
        warm_start=warm_start_of(config),
        conversations=count,
        first=first,
        problems=dict(sorted(problems.items())),
    )


def warm_start_of(config: TrainingConfig) -> str | None:
    """What a run's models were taught before reinforcement learning; None for nothing."""
    if config.sft.examples:
        return f"fine-tuned on {config.sft.examples} examples an agent, {config.sft.epochs} epochs"
    steps = config.model.warm_start.steps
    return f"{steps} supervised steps on templated kernels" if steps else None
