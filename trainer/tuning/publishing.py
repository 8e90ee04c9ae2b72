"""A data set's examples as files for supervised fine-tuning; how they were split and what they share is said beside.

    examples/generator-train.parquet   optimizer-train.parquet   tester-train.parquet      to learn from
    examples/generator-held_out…                                                           of held-out families
    examples/prompts-held_out.parquet                                                      to ask; without an answer
    examples.json                                                                          counts, and what is alike

The same data set, counts and seed give the same files, byte for byte.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from common.file_replacement import replace_file
from common.wire import Json
from trainer.conversation import prompts
from trainer.conversation.conversation import AgentName
from trainer.conversation.episode import EpisodeSettings
from trainer.data.graded import GradedData
from trainer.data.tasks import Task
from trainer.errors import ConfigurationError
from trainer.tuning import chat, examples
from trainer.tuning.examples import TaughtExample
from trainer.tuning.similarity import Contamination, without_contamination, without_near_copies

PUBLISHED: Final = "examples.json"
FOLDER: Final = "examples"
_HELD_OUT_SHARE: Final = 4
"""A held-out file has at most one example for so many to learn from."""


@dataclass(frozen=True)
class Published:
    """What was written."""

    seed: int
    files: dict[str, int] = field(default_factory=dict)
    """Rows by file."""
    statuses: dict[str, dict[str, int]] = field(default_factory=dict)
    """By agent, of the kernels that its examples to learn from end with; of the Tester, those that it diagnoses."""
    factors: tuple[float, ...] = ()
    """Of the Optimizer's examples whose old kernel is right: how many times as fast the new one is, sorted."""
    tiers: dict[str, int] = field(default_factory=dict)
    """Examples to learn from by tier."""
    families: dict[str, int] = field(default_factory=dict)
    """Examples to learn from by family."""
    held_out_families: tuple[str, ...] = ()
    held_out_shapes: tuple[str, ...] = ()
    """Operations of families to learn from that are only asked."""
    near_copies: int = 0
    """Kernels that were left out beside another of their problem."""
    contamination: Contamination = field(default_factory=lambda: Contamination(0, 0, 0.0))


def publish(
    data: GradedData,
    learned: Sequence[Task],
    held_out: Sequence[Task],
    settings: EpisodeSettings,
    into: Path,
    *,
    count: int,
    seed: int,
    factor: float,
) -> Published:
    """Write the examples of a data set: at most `count` of each agent, of two who write kernels and a Tester.

    `learned`: tasks of problems that are not held out. `held_out`: tasks that are only asked, and of problems with
    held-out kernels. Raises ConfigurationError where there is nothing to learn from, or a file cannot be written.
    """
    # Who reads a chat from a file learns all of its answers, and the first of an agent alone may be a wrong kernel.
    settings = replace(settings, flow=replace(settings.flow, single_agent=False))
    distinct, copies = without_near_copies(data)
    clean, _, found = without_contamination(distinct)
    taught = _examples(clean, learned, settings, count, seed, factor)
    if not taught:
        raise ConfigurationError(
            "No example came of the graded kernels: none to learn from is right.",
            "Grade more with --kernels, or name more families with --operations.",
        )
    asked = [task for task in held_out if task.problem not in {one.problem for one in clean.held_out}]
    answered = [task for task in held_out if task.problem in {one.problem for one in clean.held_out}]
    # Examples are made of nothing that is held out: here all of it is, and goes into files of its own.
    others = _examples(
        GradedData(clean.held_out, frozenset()),
        [replace(task, held_out=False) for task in answered],
        settings,
        max(1, count // _HELD_OUT_SHARE),
        seed,
        factor,
    )
    texts = {one.task.text for rows in taught.values() for one in rows}
    folder = into / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, int] = {}
    for side, made in (("train", taught), ("held_out", others)):
        for agent, rows in made.items():
            name = f"{agent}-{side}.parquet"
            chat.write_examples(folder / name, rows)
            files[name] = len(rows)
    opened = [(task, prompts.opening(AgentName.GENERATOR, task, settings.wording)) for task in (*asked, *answered)]
    chat.write_prompts(folder / "prompts-held_out.parquet", opened)
    files["prompts-held_out.parquet"] = len(opened)
    for path in folder.glob("*.parquet"):
        if path.name not in files:
            path.unlink()  # of an earlier time, when there were such examples
    all_taught = [one for rows in taught.values() for one in rows]
    optimizers = taught.get(AgentName.OPTIMIZER, ())
    said = Published(
        seed,
        files,
        {agent.value: dict(sorted(Counter(_end(one) for one in rows).items())) for agent, rows in taught.items()},
        tuple(sorted(round(one.factor, 3) for one in optimizers if one.factor is not None)),
        {str(tier): number for tier, number in sorted(Counter(one.task.tier for one in all_taught).items())},
        dict(sorted(Counter(chat.family_of(one.task.problem) for one in all_taught).items())),
        tuple(sorted({chat.family_of(task.problem) for task in answered})),
        tuple(sorted({task.problem for task in asked} - {task.problem for task in learned})),
        len(copies),
        Contamination(found.exact, found.near, found.highest, sum(task.text in texts for task in held_out)),
    )
    replace_file(into / PUBLISHED, json.dumps(asdict(said), indent=1) + "\n")
    return said


def read_published(into: Path) -> Published:
    """What an earlier `publish` wrote. Raises ConfigurationError where there is none."""
    try:
        return Json(Published).load((into / PUBLISHED).read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{into / PUBLISHED} says nothing of examples: {error}.", "Make it anew.") from error


def _end(one: TaughtExample) -> str:
    return str(one.kernel.verdict.status)


def _examples(
    data: GradedData, tasks: Sequence[Task], settings: EpisodeSettings, count: int, seed: int, factor: float
) -> Mapping[AgentName, tuple[TaughtExample, ...]]:
    """By agent, without those of whom there are none."""
    found: dict[AgentName, tuple[TaughtExample, ...]] = {}
    for agent in (AgentName.GENERATOR, AgentName.OPTIMIZER, AgentName.TESTER):
        try:
            found[agent] = examples.examples_of(agent, data, tasks, settings, count=count, seed=seed, factor=factor)
        except ConfigurationError:
            continue
    return found
