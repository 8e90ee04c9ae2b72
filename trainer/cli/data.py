"""`assay-train data`: kernels collected into a data set, each with the evaluator's verdict, examples for supervised
fine-tuning made of them, and what is in it.
"""

import asyncio
import statistics
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console
from rich.table import Table

from trainer.cli.configurations import checked_config
from trainer.cli.console import only_one_in, writing
from trainer.data.graded import CARD, KERNELS, DataCard
from trainer.errors import ConfigurationError

if TYPE_CHECKING:
    from trainer.tuning.publishing import Published

DATA_PICTURE: Final = "card.png"


@dataclass(frozen=True)
class DataOptions:
    """What `assay-train data` is asked for beside the configuration."""

    rollouts: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    archive: tuple[Path, ...] = ()
    kernels: int | None = None
    """Most candidates, drawn by the configuration's seed."""
    examples: int | None = None
    """Most examples of each agent; 0 writes none, None asks `sft.examples`."""


def collect_into(name: str, options: DataOptions, into: Path, overrides: tuple[str, ...]) -> None:
    """Grade templates, rollouts and archives into a data set, write its examples, and print its card. Raises
    TrainerError.
    """
    config = checked_config(name, overrides)
    section = config.sft.model_copy(update={"rollouts": (*config.sft.rollouts, *options.rollouts)})
    tasks = config.tasks.model_copy(update={"operations": (*config.tasks.operations, *options.operations)})
    # Where an embedded evaluator keeps its own files.
    aside = config.checkpointing.model_copy(update={"folder": str(into)})
    config = config.model_copy(update={"sft": section, "tasks": tasks, "checkpointing": aside})
    from trainer.data.operations import chosen_operations
    from trainer.rl import processes
    from trainer.tuning import phases
    from trainer.tuning.archive import Archive, read_archive
    from trainer.tuning.collection import rollout_candidates

    # What is wrong with the command is said before an evaluator is started for it.
    _refuse_other_folder(into)
    chosen_operations(tasks.operations)
    for folder in section.rollouts:
        next(rollout_candidates(Path(folder)), None)
    archive = Archive(tuple(row for path in options.archive for row in read_archive(path)))
    with writing(into, "--out"):
        into.mkdir(parents=True, exist_ok=True)
    count = options.examples if options.examples is not None else config.sft.examples
    tell = partial(click.echo, err=True)
    published = None
    # Two would grade the same kernels, and both would write them.
    alone = only_one_in(
        into.absolute(), "--out", "`assay-train data`", "Wait for it, or give this one another --out."
    )
    with alone, processes.evaluator(config) as ready, writing(into, "--out"):
        card = asyncio.run(phases.collect_data(ready, into, tell, most=options.kernels, archive=archive))
        if count:
            published = asyncio.run(phases.publish_data(ready, into, tell, count=count, archive=archive))
    print_card(card, into)
    if archive.rows:
        able = len(archive.candidates)
        click.echo(
            f"Archive: {len(archive.rows)} rows, {able} with one kernel that can be graded without its host code."
        )
    if published is not None:
        print_published(published, into)
        draw_card(card, published, into / DATA_PICTURE)


def _refuse_other_folder(into: Path) -> None:
    """Raise ConfigurationError for a folder that holds something else."""
    there = {path.name for path in into.iterdir()} if into.is_dir() else set()
    if there and not there & {CARD, KERNELS, "evaluator"}:
        raise ConfigurationError(
            f"{into} is no folder of a data set, and not empty.", "Give a data set a folder of its own, with --out."
        )


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


def print_published(published: "Published", folder: Path) -> None:
    """What was written, how it was split, and what both sides share."""
    for name, rows in published.files.items():
        click.echo(f"{rows} rows: {folder / 'examples' / name}")
    for agent, statuses in published.statuses.items():
        click.echo(f"{agent}: {', '.join(f'{count} {status}' for status, count in statuses.items())}.")
    if published.factors:
        click.echo(
            f"{len(published.factors)} pairs of right kernels, {published.factors[0]:.2f} to "
            f"{published.factors[-1]:.2f} times as fast, {statistics.median(published.factors):.2f} in the median."
        )
    click.echo(
        f"{len(published.families)} families to learn from, {len(published.held_out_families)} held out with their "
        f"kernels; {len(published.held_out_shapes)} more problems are only asked."
    )
    found = published.contamination
    click.echo(
        f"Contamination: {found.exact} kernels and {found.near} near copies of held-out ones are left out, and "
        f"{published.near_copies} near copies beside another of their problem; the most alike pair that is left "
        f"shares {found.highest:.0%}; {found.prompts} prompts are on both sides."
    )


def draw_card(card: DataCard, published: "Published", path: Path) -> None:
    """Draw the data set."""
    from trainer.reporting.data_picture import draw_data
    from trainer.tuning.chat import family_of

    if not card.problems:
        return
    families = {problem: family_of(problem) for problem in card.problems}
    draw_data(card, families, published.held_out_families, published.factors, path)
    click.echo(f"Picture: {path}")
