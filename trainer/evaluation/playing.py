"""Tasks played by systems, one system after another, since models of several may not fit side by side."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from trainer.conversation.conversation import Conversation
from trainer.conversation.episode import EpisodeSettings, Oracle, play_many
from trainer.data.tasks import Task
from trainer.errors import OracleError
from trainer.evaluation.answers import Answer, Answers
from trainer.evaluation.systems import System, opened

_TOLD_SHARE: Final = 8
"""How often a system's progress is told."""


@dataclass(frozen=True)
class PlayPlan:
    """How tasks are played."""

    seed: int = 0
    samples: int = 1
    """Conversations for each task."""
    temperature: float = 0.0
    top_p: float = 1.0
    """Share of the probability that the tokens of models are drawn from."""
    device: str = "cpu"
    concurrency: int = 64
    """Conversations under way at one time."""
    batch_size: int = 64
    """Most answers that a model generates together."""


def seed_of(seed: int, task: Task, sample: int) -> int:
    """The seed of one conversation, below 2^31: the same for every system, on every machine."""
    told = f"{seed}/{task.id}/{sample}".encode()
    return int.from_bytes(hashlib.blake2b(told, digest_size=4).digest(), "big") >> 1


async def play_system(
    system: System,
    tasks: Sequence[Task],
    answers: Answers,
    oracle: Oracle,
    settings: EpisodeSettings,
    plan: PlayPlan,
    tell: Callable[[str], None] = print,
) -> None:
    """Ask a system what it has not answered yet, and keep what comes of it. What ended in a fault is asked again.

    Raises OracleLostError, PolicyError, ConfigurationError: what was answered until then is kept.
    """
    there = answers.of(system.name)
    # All tasks once, then all of them again: what is stopped has about as much of each.
    missing = [
        (task, sample)
        for sample in range(plan.samples)
        for task in tasks
        if (found := there.get((task.id, sample))) is None or found.conversation is None
    ]
    if not missing:
        return
    if len(missing) < plan.samples * len(tasks):
        tell(f"{system.name}: {plan.samples * len(tasks) - len(missing)} conversations are there already.")
    done, right, step = 0, 0, max(1, len(missing) // _TOLD_SHARE)

    def keep(number: int, ended: Conversation | OracleError) -> None:
        nonlocal done, right
        task, sample = missing[number]
        if isinstance(ended, Conversation):
            answers.keep(Answer(system.name, task.id, sample, ended))
            right += any(attempt.passed for attempt in ended.attempts)
        else:
            answers.keep(Answer(system.name, task.id, sample, None, str(ended)))
        done += 1
        if done % step == 0 or done == len(missing):
            tell(f"{system.name}: {done} of {len(missing)} conversations, {right} with a right kernel.")

    asked = [(task, seed_of(plan.seed, task, sample)) for task, sample in missing]
    own = replace(settings, flow=system.flow)
    loaded = opened(
        system,
        tasks,
        temperature=plan.temperature,
        top_p=plan.top_p,
        device=plan.device,
        batch_size=plan.batch_size,
    )
    with loaded as policies:
        # A task that does not fit into the context of one system's model is still one for the others.
        await play_many(asked, policies, oracle, own, concurrency=plan.concurrency, must_fit=False, done=keep)
