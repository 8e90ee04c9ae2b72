"""Which tasks an evaluation asks: held-out wordings, shapes that no prompt of a training says, families that were
never learned from, and problems in files of others.

A set is named, since what a model does with other words says nothing of what it does with other problems.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, get_args

from common.contract import ProblemFace
from trainer.config.schema import TrainingConfig
from trainer.data.graded import sides
from trainer.data.operations import Operation, chosen_operations, stated
from trainer.data.references import StatedProblem, read_references, with_references
from trainer.data.tasks import Task, chosen, held_out_tasks
from trainer.errors import ConfigurationError
from trainer.evaluator.oracle import EvaluatorOracle

SetName = Literal["wordings", "shapes", "untaught", "families", "references"]
SETS: Final[tuple[SetName, ...]] = get_args(SetName)
MEANINGS: Final[dict[SetName, str]] = {
    "wordings": "problems of the training, in words that no prompt of it has",
    "shapes": "the same problems, graded at sizes that no prompt of it states",
    "untaught": "problems that reinforcement asks for and tuning showed no kernel of",
    "families": "problems that nothing of the training asks for",
    "references": "problems in files of others",
}
"""What each set asks, beside what was learned from."""


@dataclass(frozen=True)
class TaskSet:
    """Tasks that are measured together."""

    name: SetName
    tasks: tuple[Task, ...]


async def task_sets(
    config: TrainingConfig,
    oracle: EvaluatorOracle,
    count: int,
    wanted: Collection[SetName] = (),
    *,
    tell: Callable[[str], None] = print,
) -> tuple[TaskSet, ...]:
    """At most `count` tasks of each of these sets, or of every one that is not empty; the same whenever the same is
    asked. `config.tasks` says what was learned from.

    Raises ConfigurationError where one that is named is empty, and where all are; OracleError, OracleLostError.
    """
    asked = config.tasks
    every = await oracle.problems()
    learned = chosen(every, asked.problems)
    operations = chosen_operations(asked.operations)
    if operations and config.evaluator.backend == "gpu":
        raise ConfigurationError(
            "Operations are problems that someone else states, which the simulator alone judges.",
            "Set evaluator.backend to auto or sim, or leave out tasks.operations.",
        )
    files = read_references([Path(one) for one in asked.references]) if _wants("references", wanted) else ()
    others = await oracle.described(files, tell)
    if files and not others:
        raise ConfigurationError(
            "The evaluator can grade none of tasks.references.", "What it says of each is above."
        )
    untaught: Collection[str] = ()
    if config.sft.examples and learned:
        untaught = sides([face.id for face in learned], config.sft.held_out_problems)
    faces: dict[SetName, Sequence[ProblemFace]] = {
        "wordings": [
            *(face for face in learned if face.id not in untaught),
            *(one.face for one in operations if not (one.family_is_held_out or one.shape_is_held_out)),
        ],
        "untaught": [face for face in learned if face.id in untaught],
        "families": [
            *(face for face in every if face not in learned),
            *(one.face for one in operations if one.family_is_held_out),
        ],
        "references": [one.face for one in others],
    }
    made = {
        "shapes": _at_other_shapes([face for face in learned if face.id not in untaught], operations, config, count),
        **{name: _tasks(found, config, count) for name, found in faces.items()},
    }
    sets = tuple(TaskSet(name, _stated(made[name], others)) for name in SETS if _wants(name, wanted) and made[name])
    if missing := [name for name in wanted if name not in {one.name for one in sets}]:
        raise ConfigurationError(
            f"The set {missing[0]} is empty: {MEANINGS[missing[0]]}.",
            {
                "untaught": "Give the configuration of a run that was tuned (sft.examples).",
                "families": "Name in tasks.problems what was trained on, or families in tasks.operations.",
                "references": "Name files or folders in tasks.references.",
            }.get(missing[0], "Name problems in tasks.problems."),
        )
    if not sets:
        raise ConfigurationError("There is no task to ask.", "Name problems in tasks.problems.")
    return sets


def _wants(name: SetName, wanted: Collection[SetName]) -> bool:
    return not wanted or name in wanted


def _tasks(faces: Sequence[ProblemFace], config: TrainingConfig, count: int) -> tuple[Task, ...]:
    if not faces:
        return ()
    asked = config.tasks
    return held_out_tasks(faces, count, wording=asked.wording, held_out_share=asked.held_out_share)


def _stated(tasks: Sequence[Task], others: Sequence[StatedProblem]) -> tuple[Task, ...]:
    return with_references(stated(tasks), others)


def _at_other_shapes(
    learned: Sequence[ProblemFace], operations: Sequence[Operation], config: TrainingConfig, count: int
) -> tuple[Task, ...]:
    """Wordings that say another shape than any published one, or none; each with the sizes that it is graded at."""
    faces = {face.id: _at(face, config.evaluator.backend == "sim") for face in learned}
    others = [one.face for one in operations if one.shape_is_held_out and not one.family_is_held_out]
    found = []
    for task in _tasks([*faces.values(), *others], config, count):
        if task.problem not in faces:
            found.append(task)
            continue
        sizes = faces[task.problem].timing_sizes
        # A wording that says no sizes is one of the published shapes too.
        said = "x".join(map(str, sizes.values()))
        found.append(replace(task, id=f"{task.id}@{said}", sizes=sizes))
    return tuple(found)


def _at(face: ProblemFace, simulated: bool) -> ProblemFace:
    """The problem as if it were published at another shape: three quarters of one that is, and odd, which no bound on
    sizes forbids. Where a GPU may measure it is the shape of the timing, which keeps one busy.
    """
    base = face.example_sizes[0] if simulated else face.timing_sizes
    sizes = other_sizes(base)
    return face.model_copy(update={"example_sizes": (sizes,), "timing_sizes": sizes})


def other_sizes(sizes: dict[str, int]) -> dict[str, int]:
    """Three quarters of each, made odd."""
    return {name: 3 * size // 4 | 1 for name, size in sizes.items()}
