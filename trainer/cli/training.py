"""`assay-train run`: one run in one folder, started, continued or refused."""

import contextlib
import dataclasses
import errno
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from trainer.cli.configurations import checked_config
from trainer.cli.console import INTERRUPTED, PICTURE, TUNING, only_one_in
from trainer.config.reading import as_yaml, load_config
from trainer.config.schema import AgentRole, TrainingConfig, TunedRole
from trainer.errors import CheckpointError, ConfigurationError

_LASTING: Final = re.compile(
    r"model\.(name|lora_rank|warm_start\..*)|sft\..*|agents\.optimizer|agents\..*\.model_name"
)
"""Settings that a run which goes on cannot change: the weights are of the old ones."""


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """What `assay-train run` was asked for beside its configuration."""

    fresh: bool = False
    """Start over; the folder of an earlier run of this name is put aside."""
    resume: bool = False
    """Refuse to start where there is nothing to go on from."""
    skip_sft: bool = False
    """No data and no fine-tuning now; models that an earlier start has tuned are used."""
    skip_rl: bool = False
    """End after the fine-tuning."""
    episodes: int | None = None
    """Conversations of the whole reinforcement learning, up to whole steps; None as `algorithm.steps` says."""


def train(name: str, overrides: tuple[str, ...], options: RunOptions) -> None:
    """Train with the configuration `name`: fine-tuning where it has examples, then reinforcement learning; exits with
    `INTERRUPTED` where the run was stopped.

    Raises TrainerError.
    """
    config = checked_config(name, overrides)
    if options.episodes is not None:
        steps = -(-options.episodes // config.episodes_per_step)
        overrides = (*overrides, f"algorithm.steps={steps}")
        config = checked_config(name, overrides)
    folder = Path(config.run_folder)
    again = shlex.join(["assay-train", "run", "--config", name, *overrides])
    if options.resume and not (folder / "config.yaml").is_file():
        raise ConfigurationError(f"There is no run in {folder} to go on with.", "Leave --resume out to begin it.")
    if options.skip_rl and (options.skip_sft or not config.sft.examples):
        raise ConfigurationError(
            "Without fine-tuning and reinforcement learning there is nothing to do.",
            "Leave --skip-rl or --skip-sft out, or give --sft-examples.",
        )
    signal.signal(signal.SIGTERM, _as_ctrl_c)
    # Imported here: what needs no training must not wait for torch.
    from trainer.cli.doctor import folder_named, refuse_without_model, refuse_wrong_tasks
    from trainer.reporting import metrics
    from trainer.rl import processes, runner
    from trainer.rl.checkpoints import Checkpoints
    from trainer.rl.settings import refuse_without_packages

    _refuse_no_run(folder)
    if not options.skip_rl:
        # The run looks again, and by then an earlier one is put aside and models have been tuned for hours.
        refuse_without_packages(config)
        refuse_wrong_tasks(config)
    for name in config.model_names.values():
        if (model := folder_named(name)) is not None:
            refuse_without_model(model)
    with only_one_in(folder, "checkpointing.folder", "run", "Wait for it, or give this one another name: name=…"):
        if options.fresh:
            _put_aside(folder)
        newest = Checkpoints(folder / "checkpoints").newest()
        if newest is None and any(line["step"] for line in metrics.read_measures(folder)):
            click.echo(f"The run in {folder} left no checkpoint to go on from: it starts over.", err=True)
            # Models that were warmed up for it are as good as before.
            _put_aside(folder, but=("models", TUNING))
        if newest is not None:
            _check_same(config, folder)
            click.echo(f"Going on from step {newest.step} of {config.algorithm.steps} in {folder}.", err=True)
            if (
                not options.skip_rl
                and newest.step >= config.algorithm.steps
                and metrics.evaluated(folder, newest.step)
            ):
                click.echo(
                    f"All {config.algorithm.steps} steps are done. Raise algorithm.steps, or start over with --fresh."
                )
                return
        folder.mkdir(parents=True, exist_ok=True)
        before = newest.step if newest else 0
        configured = _configured(folder, config)
        with configured, _full_disk_named(folder), processes.evaluator(config) as ready:
            tuned = _tuned(ready, folder / TUNING, options, going_on=newest is not None)
            if options.skip_rl:
                _print_tuned(tuned or {})
                return
            ready, agents = _with_tester(ready, tuned)
            with _progress(config, before) as told:
                summary = runner.run(ready, on_step=told, tell=_say, agents=agents)
        drawn = _draw(folder, config)
    _report(summary, folder, drawn)
    if summary.interrupted:
        where = f"It is kept in {summary.checkpoint}; go on" if summary.checkpoint else "Begin again"
        click.echo(f"Stopped. {where} with: {again}", err=True)
        sys.exit(INTERRUPTED)


def _tuned(
    config: TrainingConfig, folder: Path, options: RunOptions, *, going_on: bool
) -> Mapping[TunedRole, Path] | None:
    """The models that a run begins with where they are tuned; None where it takes them as the configuration says.

    A run that goes on keeps the ones that it began with.
    """
    if not config.sft.examples:
        return None
    from trainer.tuning import phases

    if not going_on and not options.skip_sft:
        return phases.tune(config, folder, _say)
    before = phases.tuned_before(folder)
    if before is None and not going_on:
        _say(f"No models have been tuned in {folder}: the run begins with those of the configuration.")
    elif before and "tester" in config.tuned_roles and "tester" not in before:
        _say(f"No Tester has been tuned in {folder}: it is the configuration's model.")
    return before


def _with_tester(
    config: TrainingConfig, tuned: Mapping[TunedRole, Path] | None
) -> tuple[TrainingConfig, Mapping[AgentRole, Path | str] | None]:
    """The configuration with a tuned Tester in it, and the models of those who learn on."""
    if tuned is None:
        return config, None
    tester = config.agents.tester
    if tester is not None and tester.tuned and "tester" in tuned:
        named = tester.model_copy(update={"model_name": str(tuned["tester"].absolute())})
        config = config.model_copy(update={"agents": config.agents.model_copy(update={"tester": named})})
    return config, {role: tuned[role] for role in config.roles}


def _print_tuned(tuned: Mapping[TunedRole, Path]) -> None:
    for role, model in tuned.items():
        click.echo(f"{role:<22} {model}")


def _say(text: str) -> None:
    click.echo(text, err=True)


def _as_ctrl_c(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _refuse_no_run(folder: Path) -> None:
    """Raises ConfigurationError for a folder that is something else: `--fresh` would give it another name."""
    from trainer.reporting import metrics

    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    # A run's configuration comes first, but where models of an earlier one were kept for it.
    ours = bool(there & {"config.yaml", metrics.FILE}) or there <= {"models", TUNING}
    if not ours or folder.resolve() == Path(folder.resolve().anchor):
        raise ConfigurationError(
            f"{folder} is no folder of a run, and not empty.",
            "Give a run a folder of its own: checkpointing.folder=…/{name}.",
        )


@contextlib.contextmanager
def _configured(folder: Path, config: TrainingConfig) -> Iterator[None]:
    """The folder of a run with this configuration in it; where the start is refused, with the one it had before."""
    file, checkpoints = folder / "config.yaml", folder / "checkpoints"
    there = file.read_bytes() if file.is_file() else None
    kept = sorted(checkpoints.glob("*"))
    file.write_text(as_yaml(config), encoding="utf-8")
    try:
        yield
    except (ConfigurationError, CheckpointError):
        # What was learned since was learned as this configuration says.
        if there is not None and sorted(checkpoints.glob("*")) == kept:
            file.write_bytes(there)
        raise


@contextlib.contextmanager
def _full_disk_named(folder: Path) -> Iterator[None]:
    """Raises CheckpointError where measures, transcripts or data find no room any more."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            raise
        raise CheckpointError(
            f"{error.filename or folder} cannot be written: {error.strerror}.",
            "Make room there; the same command goes on from what is kept.",
        ) from error


def _put_aside(folder: Path, but: tuple[str, ...] = ()) -> None:
    """Give the folder of an earlier run another name; what has one of the names `but` in it stays."""
    if not folder.exists():
        return
    number = 1
    while (aside := folder.with_name(f"{folder.name}.{number}")).exists():
        number += 1
    folder.rename(aside)
    for name in but:
        if (aside / name).exists():
            folder.mkdir(exist_ok=True)
            (aside / name).rename(folder / name)
    click.echo(f"The earlier run is now {aside}.", err=True)


def _check_same(config: TrainingConfig, folder: Path) -> None:
    before_file = folder / "config.yaml"
    if not before_file.is_file():
        return
    before, now = load_config(str(before_file)).model_dump(), config.model_dump()
    changed = sorted(_differences(before, now))
    lasting = [name for name in changed if _LASTING.fullmatch(name)]
    if lasting:
        raise ConfigurationError(
            f"The run in {folder} began with other weights: {', '.join(lasting)} changed.",
            "Start over with --fresh, or give this run another name: name=…",
        )
    if changed:
        click.echo(f"Different from the last time: {', '.join(changed)}.", err=True)


def _differences(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name in {*before, *now}:
        old, new = before.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differences(old, new, f"{prefix}{name}.")
        elif old != new:
            yield f"{prefix}{name}"


@contextlib.contextmanager
def _progress(config: TrainingConfig, done: int) -> Iterator[Callable[[int, Mapping[str, float]], None]]:
    """What to call after each step."""
    console = Console(stderr=True)
    shown = ("reward/final", "pass_rate", "compile_rate", "turns")

    def text(values: Mapping[str, float]) -> str:
        return "  ".join(f"{name.partition('/')[0]} {values[name]:.2f}" for name in shown if name in values)

    if not (config.logging.progress and console.is_terminal):

        def tell(step: int, values: Mapping[str, float]) -> None:
            click.echo(f"step {step} of {config.algorithm.steps}  {text(values)}", err=True)

        yield tell
        return
    columns = (
        TextColumn("step"),
        MofNCompleteColumn(),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[text]}"),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("", total=config.algorithm.steps, completed=done, text="starting")
        yield lambda step, values: progress.update(bar, completed=step, text=text(values))


def _draw(folder: Path, config: TrainingConfig) -> Path | None:
    from trainer.reporting import curves, metrics

    lines = metrics.read_measures(folder)
    if not lines:
        return None
    curves.draw_curves(lines, folder / PICTURE, config.name)
    return folder / PICTURE


def _report(summary: Any, folder: Path, picture: Path | None) -> None:
    for field in dataclasses.fields(summary):
        value = getattr(summary, field.name)
        if value is None or isinstance(value, tuple | dict):
            continue
        if isinstance(value, bool):
            value = "yes" if value else "no"
        click.echo(f"{field.name.replace('_', ' '):<22} {f'{value:.4g}' if isinstance(value, float) else value}")
    if picture:
        click.echo(f"{'picture':<22} {picture}")
    click.echo(f"{'conversations':<22} assay-train transcripts {folder}")
