"""What a run asks its agents: the evaluator's problems and those that it is sent, in words of ours."""

import os
from collections.abc import Callable
from pathlib import Path

from common.client import AsyncClient
from trainer.config.schema import TrainingConfig
from trainer.data import references
from trainer.data.operations import chosen_operations, stated
from trainer.data.tasks import Task, chosen, held_out_tasks, training_tasks
from trainer.errors import ConfigurationError
from trainer.evaluator import oracle as evaluation


async def tasks_of(config: TrainingConfig, tell: Callable[[str], None]) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Tasks to train on and held-out ones, of the problems that the evaluator has and those that it is sent.

    Raises ConfigurationError, OracleError, OracleLostError.
    """
    section, asked = config.evaluator, config.tasks
    client = AsyncClient(section.url, os.environ.get(section.key_variable), patience_s=section.patience_s)
    async with evaluation.EvaluatorOracle(client, evaluation.oracle_settings(section)) as oracle:
        await oracle.wait_until_ready(tell)
        faces = chosen(await oracle.problems(), asked.problems)
        given = references.read_references([Path(one) for one in asked.references])
        problems = await oracle.described(given, tell)
    if given and not problems:
        raise ConfigurationError(
            "The evaluator can grade none of tasks.references.", "What it says of each is above."
        )
    others = chosen_operations(asked.operations)
    learned = [
        *faces,
        *(one.face for one in others if not (one.family_is_held_out or one.shape_is_held_out)),
        *(one.face for one in problems if not one.is_held_out),
    ]
    every = [*faces, *(one.face for one in others), *(one.face for one in problems)]
    wording, share = asked.wording, asked.held_out_share
    training = training_tasks(learned, asked.variants, wording=wording, held_out_share=share)
    held_out = held_out_tasks(every, asked.held_out, wording=wording, held_out_share=share)
    return references.with_references(stated(training), problems), references.with_references(
        stated(held_out), problems
    )
