"""`assay-train evaluate`: systems on held-out tasks, measured, compared and reported."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from common.client import AsyncClient
from common.contract.timing import BaselineName
from common.reward import ComponentSettings
from trainer.cli.configurations import checked_config
from trainer.cli.console import only_one_in, writing
from trainer.cli.named_systems import CONFIG, NamedSystem, named_systems, turns_of
from trainer.config.reading import load_config
from trainer.config.schema import TrainingConfig
from trainer.conversation.episode import EpisodeSettings, episode_settings
from trainer.conversation.rewards import RewardSettings, credit_settings
from trainer.errors import ConfigurationError
from trainer.evaluation.answers import ANSWERS, PLAN, Answers
from trainer.evaluation.first_passes import first_passes_of
from trainer.evaluation.measures import ClusteredBy, named
from trainer.evaluation.model_card import model_card
from trainer.evaluation.page import figure_text, measured_names, p_value, write_page
from trainer.evaluation.playing import PlayPlan, play_system
from trainer.evaluation.report import EvaluationReport, Figure, FirstPasses
from trainer.evaluation.summary import crossed, naive_kernels, played_of, report_of, silent, was_timed
from trainer.evaluation.systems import System
from trainer.evaluation.task_sets import SetName, task_sets
from trainer.evaluator.oracle import EvaluatorOracle, oracle_settings
from trainer.reporting.transcripts import transcript, write_transcripts

REPORT: Final = "report.json"
PAGE: Final = "report.html"
CARDS: Final = "cards"
TRANSCRIPTS: Final = "transcripts"
SILENT: Final = 3
"""The exit code where a system wrote nothing, or never ended: the report is there all the same."""
_IN_THE_TERMINAL: Final = (
    *("compile_rate", "pass@", "fast_", "speedup/", "sol_score"),
    *("regression_rate", "turns", "early_stop_rate", "first_pass"),
)


@dataclass(frozen=True)
class EvaluationOptions:
    """What `assay-train evaluate` is asked for beside the configuration."""

    systems: tuple[str, ...]
    sets: tuple[SetName, ...] = ()
    tasks: int = 32
    samples: int = 1
    ks: tuple[int, ...] = ()
    turns: tuple[str, ...] = ()
    baselines: tuple[BaselineName, ...] = ()
    clustered_by: ClusteredBy = "task"
    cross_play: bool = False
    seed: int = 0


def evaluate_into(name: str | None, options: EvaluationOptions, out: Path, overrides: tuple[str, ...]) -> None:
    """Play, measure and report; exits with `SILENT` where a system wrote nothing. Raises TrainerError."""
    asked = named_systems(options.systems)
    config = _config(name, asked, overrides)
    turns = turns_of(options.turns, asked)
    settings = _settings(config, options)
    flows = {
        one.name: replace(settings.flow, max_turns=turns.get(one.name, settings.flow.max_turns)) for one in asked
    }
    systems = [one.system(flows[one.name]) for one in asked]
    crosses = _crosses(systems, options)
    _refuse_other_folder(out)
    temperature = config.rollout.evaluation_temperature
    if options.samples > 1 and temperature == 0 and any(one.models for one in systems):
        raise ConfigurationError(
            f"At temperature 0 all {options.samples} answers of a model to a task are the same.",
            "Set rollout.evaluation_temperature above 0, or --samples 1.",
        )
    ks = tuple(sorted({1, options.samples, *options.ks}))
    if ks[-1] > options.samples:
        raise ConfigurationError(
            f"pass@{ks[-1]} needs {ks[-1]} conversations a task, and there are {options.samples}.", "Raise --samples."
        )
    from trainer.rl import processes

    signal.signal(signal.SIGTERM, _as_ctrl_c)
    tell = partial(click.echo, err=True)
    aside = config.checkpointing.model_copy(update={"folder": str(out)})
    config = config.model_copy(update={"checkpointing": aside})
    alone = only_one_in(
        out.absolute(), "--out", "`assay-train evaluate`", "Wait for it, or give this one another --out."
    )
    with alone, processes.evaluator(config) as ready, writing(out, "--out"):
        plan = PlayPlan(
            seed=options.seed,
            samples=options.samples,
            temperature=temperature,
            top_p=config.rollout.top_p,
            device=ready.resources.device,
            concurrency=ready.evaluator.concurrency,
            batch_size=1 if ready.deterministic else 64,
        )
        report = asyncio.run(
            _evaluated(ready, options, systems, crosses, settings, plan, ks, _first_passes(asked), out, tell)
        )
        _write(report, out)
    _print(report, out)
    said = [words for one in report.systems if (words := silent(one)) is not None]
    if said:
        for words in said:
            click.echo(f"assay-train: {words}", err=True)
        click.echo(
            "  Raise rollout.turn_tokens where answers are cut; where prompts do not fit, take a model with a longer "
            "context, or tasks.wording=brief with another --out. Look at conversations with "
            f"`assay-train transcripts {out}`.",
            err=True,
        )
        sys.exit(SILENT)


async def _evaluated(
    config: TrainingConfig,
    options: EvaluationOptions,
    systems: Sequence[System],
    crosses: Sequence[System],
    settings: EpisodeSettings,
    plan: PlayPlan,
    ks: Sequence[int],
    first_passes: Sequence[FirstPasses],
    out: Path,
    tell: Callable[[str], None],
) -> EvaluationReport:
    section = config.evaluator
    client = AsyncClient(section.url, os.environ.get(section.key_variable), patience_s=section.patience_s)
    async with EvaluatorOracle(client, oracle_settings(section)) as oracle:
        await oracle.wait_until_ready(tell)
        version = await oracle.version()
        sets = await task_sets(config, oracle, options.tasks, options.sets, tell=tell)
        told = _told(config, settings, plan, version)
        answers = Answers(out, told, {one.name: one.identity for one in (*systems, *crosses)})
        tasks = [task for one in sets for task in one.tasks]
        for system in systems:
            await play_system(system, tasks, answers, oracle, settings, plan, tell)
        for system in crosses:
            await play_system(system, tasks, answers, oracle, settings, replace(plan, samples=1), tell)
        ids = [task.id for task in tasks]
        played = [played_of(system, answers, ids, plan.samples) for system in systems]
        naive = naive_kernels(settings.flow) if was_timed(played) else None
        if naive is not None:
            await play_system(naive, tasks, answers, oracle, settings, replace(plan, samples=1), tell)
    for each in played:
        kept = [one.conversation for one in each.answers if one.conversation is not None]
        lines = [transcript(one, credit_settings(config.flow)) for one in kept]
        write_transcripts(out / TRANSCRIPTS / f"{each.system.name}.jsonl", lines)
    return report_of(
        played,
        sets,
        evaluator=version,
        settings=told,
        samples=plan.samples,
        temperature=plan.temperature,
        ks=ks,
        clustered_by=options.clustered_by,
        seed=plan.seed,
        crosses=[played_of(system, answers, ids, 1) for system in crosses],
        first_passes=first_passes,
        naive=None if naive is None else played_of(naive, answers, ids, 1),
    )


def _config(name: str | None, asked: Sequence[NamedSystem], overrides: tuple[str, ...]) -> TrainingConfig:
    """The one that is named, else that of the first training run."""
    runs = [one.run for one in asked if one.run is not None]
    if name is None and not runs:
        raise ConfigurationError(
            "No configuration says which problems were learned from, which evaluator judges, and how many turns to "
            "play.",
            "Give --config NAME, or name a training run in a --system.",
        )
    return checked_config(name or str(runs[0] / CONFIG), overrides)


def _settings(config: TrainingConfig, options: EvaluationOptions) -> EpisodeSettings:
    settings = episode_settings(config)
    if options.baselines:
        grading = settings.grading.model_copy(update={"baselines": options.baselines})
        settings = replace(settings, grading=grading)
    return settings


def _crosses(systems: Sequence[System], options: EvaluationOptions) -> tuple[System, ...]:
    if not options.cross_play:
        return ()
    pairs = [one for one in systems if len(one.models) == 2]
    if len(pairs) < 2:
        raise ConfigurationError(
            f"Cross-play is between systems of two agents, and {len(pairs)} of these are such.",
            "Name two with a Generator and an Optimizer each, or leave --crossplay out.",
        )
    return crossed(pairs)


def _told(config: TrainingConfig, settings: EpisodeSettings, plan: PlayPlan, version: str) -> dict[str, str]:
    """What every answer and every verdict hangs on, in words."""
    rewards = {str(agent): _reward_told(reward) for agent, reward in settings.rewards.items()}
    return {
        "evaluator": version,
        "backend": settings.backend,
        "verification": settings.grading.verification,
        "grading": settings.grading.model_dump_json(exclude_defaults=True),
        "reward": ", ".join(f"{agent}: {reward}" for agent, reward in rewards.items()),
        "early stop": f"{settings.flow.stop_at:g}",
        "wording": settings.wording,
        "tokens": f"{settings.turn_tokens} an answer, {settings.update_tokens} an update, "
        f"{settings.tester.report_tokens} a report",
        "temperature": _sampling_told(plan),
        "device": plan.device,
        "seed": str(plan.seed),
    }


def _sampling_told(plan: PlayPlan) -> str:
    """The share of the probability where tokens are drawn from less than all of it."""
    drawn_from_less = plan.temperature > 0 and plan.top_p < 1
    return f"{plan.temperature:g}" + (f", top_p {plan.top_p:g}" if drawn_from_less else "")


def _reward_told(reward: RewardSettings) -> str:
    """Its name, and what differs from the defaults of what this trainer adds to it."""
    defaults, own = asdict(ComponentSettings()), asdict(reward.components)
    differs = {name: value for name, value in own.items() if value != defaults[name]}
    if reward.format_error:
        differs["format_error"] = reward.format_error
    words = ", ".join(f"{name} {value:g}" for name, value in differs.items())
    return f"{reward.name} ({words})" if words else str(reward.name)


def _first_passes(asked: Sequence[NamedSystem]) -> tuple[FirstPasses, ...]:
    """Of each training run once."""
    runs = dict.fromkeys(one.run for one in asked if one.run is not None)
    found = [first_passes_of(run, load_config(str(run / CONFIG))) for run in runs]
    return tuple(one for one in found if one is not None)


def _refuse_other_folder(out: Path) -> None:
    there = {path.name for path in out.iterdir()} if out.is_dir() else set()
    if there and not there & {PLAN, ANSWERS, "evaluator"}:
        raise ConfigurationError(
            f"{out} is no folder of an evaluation, and not empty.", "Give an evaluation a folder of its own."
        )


def _as_ctrl_c(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _write(report: EvaluationReport, out: Path) -> None:
    (out / REPORT).write_text(report.model_dump_json(indent=1) + "\n", encoding="utf-8")
    write_page(report, out / PAGE)
    (out / CARDS).mkdir(exist_ok=True)
    for one in report.systems:
        if one.models:
            (out / CARDS / f"{one.name}.md").write_text(model_card(report, one), encoding="utf-8")


def _cell(name: str, figure: Figure | None) -> str:
    if figure is not None and figure.value is None and str(figure.why_not).startswith("not measured here"):
        return "not measured here"
    return figure_text(name, figure).replace(" (", "\n(")


def _print(report: EvaluationReport, out: Path) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for one in report.systems:
        table.add_column(one.name, justify="right", overflow="fold")
    names, unmeasured = measured_names(report, None)
    for name in names:
        if name.startswith(_IN_THE_TERMINAL):
            cells = [_cell(name, one.figures.get(name)) for one in report.systems]
            table.add_row(named(name)[0], *cells)
    Console().print(table)
    for reason, headings in unmeasured.items():
        click.echo(f"Not measured here ({reason}): {', '.join(headings)}.")
    for comparison in report.comparisons:
        if comparison.set is None or len(report.sets) == 1:
            test = comparison.mcnemar
            click.echo(
                f"{comparison.second} against {comparison.first}: right on {test.only_second} tasks where the other "
                f"is not, wrong on {test.only_first} where it is right; McNemar's p {p_value(test.p)}."
            )
    for warning in report.warnings:
        click.echo(f"Note: {warning}", err=True)
    click.echo(f"{out / PAGE}\n{out / REPORT}")
