"""`assay-train crossplay`: each agent of a run with the other's earlier checkpoints."""

import asyncio
import json
import os
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from common.client import AsyncClient
from trainer.cli.console import writing
from trainer.config.reading import load_config
from trainer.config.schema import TrainingConfig
from trainer.conversation import episode
from trainer.data.tasks import Task
from trainer.errors import ConfigurationError
from trainer.evaluator import oracle, run_tasks
from trainer.policies.crossplay import Pairing, cross_play, specialisation
from trainer.policies.local_policy import LocalPolicy, SamplingSettings
from trainer.rl import processes
from trainer.rl.checkpoints import Checkpoint, Checkpoints

RESULT: Final = "crossplay.json"


def pair_checkpoints(folder: Path, count: int, seed: int, overrides: tuple[str, ...]) -> None:
    """Play every Generator of a run's checkpoints with every Optimizer of them, on `count` held-out tasks, and print
    and keep what came of it. The models run in this process, on the CPU, in float32.

    Raises TrainerError.
    """
    if not (folder / "config.yaml").is_file():
        raise ConfigurationError(f"{folder} is no run: it has no config.yaml.", "Name one such as runs/cpu-demo.")
    config = load_config(str(folder / "config.yaml"), overrides)
    found = Checkpoints(folder / "checkpoints").kept()
    if len(config.roles) < 2 or len(found) < 2:
        raise ConfigurationError(
            f"{folder} has {len(found)} checkpoints of {len(config.roles)} agents, and two of each are needed.",
            "Train two agents, and keep more checkpoints: checkpointing.keep=…, checkpointing.every_episodes=…",
        )
    if config.model.lora_rank:
        raise ConfigurationError(
            "The checkpoints of this run are adapters beside the model that they began with.",
            "Cross-play needs whole models: put each adapter into its model first (peft's merge_and_unload).",
        )
    # The evaluator's own files go beside the run's, not among them.
    aside = config.model_copy(
        update={"checkpointing": config.checkpointing.model_copy(update={"folder": str(folder / "crossplay")})}
    )
    with processes.evaluator(aside) as ready:
        _, held_out = asyncio.run(run_tasks.tasks_of(ready, partial(click.echo, err=True)))
        pairings = asyncio.run(_played(ready, found, held_out[:count], seed))
    gap = specialisation(pairings)
    with writing(folder / RESULT, "FOLDER"):
        text = json.dumps({"pairings": [asdict(one) for one in pairings], "specialisation": gap}, indent=1)
        (folder / RESULT).write_text(text, encoding="utf-8")
    _print(pairings, gap)


async def _played(
    config: TrainingConfig, found: tuple[Checkpoint, ...], tasks: tuple[Task, ...], seed: int
) -> tuple[Pairing, ...]:
    sampling = SamplingSettings(config.rollout.evaluation_temperature, top_p=config.rollout.top_p)
    generators = {str(one.step): LocalPolicy(one.model("generator"), sampling) for one in found}
    optimizers = {str(one.step): LocalPolicy(one.model("optimizer"), sampling) for one in found}
    section, settings = config.evaluator, episode.episode_settings(config)
    client = AsyncClient(section.url, os.environ.get(section.key_variable), patience_s=section.patience_s)
    async with oracle.EvaluatorOracle(client, oracle.oracle_settings(section)) as judge:
        return await cross_play(
            tasks,
            generators,
            optimizers,
            lambda task, policies, its_seed: episode.play(task, policies, judge, settings, its_seed),
            seed=seed,
        )


def _print(pairings: tuple[Pairing, ...], gap: float | None) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("generator", "optimizer", "reward", "right", "gain", "played", "left out"):
        table.add_column(heading, justify="right")
    for one in pairings:
        measured = (one.final_reward, one.pass_rate, one.gain)
        shown = ["-" if value is None else f"{value:.3f}" for value in measured]
        table.add_row(one.generator, one.optimizer, *shown, str(one.conversations), str(one.left_out))
    Console().print(table)
    if gap is not None:
        click.echo(f"Agents of the same checkpoint earn {gap:+.3f} more than with others.")
