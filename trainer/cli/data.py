"""`assay-train data`: kernels collected into a data set, each with the evaluator's verdict, and what is in it."""

import asyncio
from functools import partial
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from trainer.cli.configurations import checked_config
from trainer.cli.console import writing
from trainer.data.graded import CARD, DataCard


def collect_into(name: str, rollouts: tuple[str, ...], into: Path, overrides: tuple[str, ...]) -> None:
    """Grade templates and rollouts into a data set, and print its card. Raises TrainerError."""
    config = checked_config(name, overrides)
    section = config.sft.model_copy(update={"rollouts": (*config.sft.rollouts, *rollouts)})
    # Where an embedded evaluator keeps its own files.
    aside = config.checkpointing.model_copy(update={"folder": str(into)})
    config = config.model_copy(update={"sft": section, "checkpointing": aside})
    with writing(into, "--out"):
        into.mkdir(parents=True, exist_ok=True)
    from trainer.rl import processes
    from trainer.tuning import phases

    with processes.evaluator(config) as ready, writing(into, "--out"):
        card = asyncio.run(phases.collect_data(ready, into, partial(click.echo, err=True)))
    print_card(card, into)


def print_card(card: DataCard, folder: Path) -> None:
    """A data set's card, for a person."""
    statuses = sorted({status for counts in card.problems.values() for status in counts})
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("problem", "side", *statuses):
        table.add_column(heading, overflow="fold", justify="left" if heading in ("problem", "side") else "right")
    for problem, counts in card.problems.items():
        side = "held out" if problem in card.held_out_problems else "training"
        table.add_row(problem, side, *(str(counts.get(status, 0)) for status in statuses))
    Console().print(table)
    a_minute = card.evaluations / card.seconds * 60 if card.seconds else 0.0
    click.echo(f"{card.kernels} kernels, {card.training} to learn from, {card.held_out} held out: {folder / CARD}")
    click.echo(
        f"{card.evaluations} graded now in {card.seconds:.0f} s ({a_minute:.0f} a minute), "
        f"{card.duplicates} there already, {card.faults} without a verdict."
    )
    for reason, count in card.rejected.items():
        click.echo(f"Not kept: {count}, {reason}.")
