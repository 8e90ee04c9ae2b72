"""The command `assay-train`."""

import contextlib
import dataclasses
import fcntl
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.syntax import Syntax
from rich.table import Table

from trainer.config.reading import as_yaml, described, load_config, ready_files
from trainer.config.schema import TrainingConfig
from trainer.conversation.episode import episode_settings
from trainer.errors import ConfigurationError, TrainerError
from trainer.rl.curriculum import curriculum_of

INTERRUPTED: Final = 130
PICTURE: Final = "learning.png"
_LASTING: Final = re.compile(r"model\.(name|lora_rank|warm_start\..*)|agents\.optimizer|agents\..*\.model_name")
"""Settings that a run which goes on cannot change: the weights are of the old ones."""

_overrides = click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")


class _Commands(click.Group):
    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except ConfigurationError as error:
            _fail(error, 2)
        except TrainerError as error:
            _fail(error, 1)
        except KeyboardInterrupt:
            click.echo("\nassay-train: stopped.", err=True)
            sys.exit(INTERRUPTED)


def _fail(error: TrainerError, code: int) -> NoReturn:
    print(f"assay-train: {error}", file=sys.stderr)
    if error.remedy:
        print(f"  {error.remedy}", file=sys.stderr)
    sys.exit(code)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Train language models to write CUDA kernels, with the evaluator's verdicts as their reward.

    Begin with `assay-train config list`, or with `assay-train run --config cpu-demo`, which needs no GPU.
    """


@main.command()
@click.option("--config", "name", required=True, metavar="NAME|FILE", help="A ready configuration, or a YAML file.")
@click.option("--fresh", is_flag=True, help="Start over; the folder of an earlier run of this name is put aside.")
@_overrides
def run(name: str, fresh: bool, overrides: tuple[str, ...]) -> None:
    """Train. A run that was stopped goes on from its last checkpoint.

    KEY=VALUE changes single settings, for example algorithm.learning_rate=3e-6.
    """
    config = _checked(name, overrides)
    folder = Path(config.run_folder)
    again = shlex.join(["assay-train", "run", "--config", name, *overrides])
    signal.signal(signal.SIGTERM, _as_ctrl_c)
    # Imported here: what needs no training must not wait for torch.
    from trainer.reporting import metrics
    from trainer.rl import processes, runner
    from trainer.rl.checkpoints import Checkpoints

    with _only_run_in(folder):
        if fresh:
            _put_aside(folder)
        newest = Checkpoints(folder / "checkpoints").newest()
        if newest is None and any(line["step"] for line in metrics.read_measures(folder)):
            click.echo(f"The run in {folder} left no checkpoint to go on from: it starts over.", err=True)
            # Models that were warmed up for it are as good as before.
            _put_aside(folder, but="models")
        if newest is not None:
            _check_same(config, folder)
            click.echo(f"Going on from step {newest.step} of {config.algorithm.steps} in {folder}.", err=True)
            if newest.step >= config.algorithm.steps and metrics.evaluated(folder, newest.step):
                click.echo(
                    f"All {config.algorithm.steps} steps are done. Raise algorithm.steps, or start over with --fresh."
                )
                return
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.yaml").write_text(as_yaml(config), encoding="utf-8")
        before = newest.step if newest else 0
        with processes.evaluator(config) as ready, _progress(config, before) as told:
            summary = runner.run(ready, on_step=told, tell=lambda text: click.echo(text, err=True))
        drawn = _draw(folder, config)
    _report(summary, folder, drawn)
    if summary.interrupted:
        where = f"It is kept in {summary.checkpoint}; go on" if summary.checkpoint else "Begin again"
        click.echo(f"Stopped. {where} with: {again}", err=True)
        sys.exit(INTERRUPTED)


@main.group()
def config() -> None:
    """Show, check and explain configurations."""


@config.command(name="list")
def list_ready() -> None:
    """The configurations that are ready."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for nowrap in (True, True, False):
        table.add_column(no_wrap=nowrap)
    for each in ready_files():
        table.add_row(each.name, each.alias or "", each.summary)
    Console().print(table)


@config.command()
@click.argument("name", metavar="NAME|FILE")
@click.option("--verl", "verl_too", is_flag=True, help="Also what verl gets, for each agent.")
@click.option("--changed", is_flag=True, help="Only what differs from the defaults.")
@_overrides
def show(name: str, verl_too: bool, changed: bool, overrides: tuple[str, ...]) -> None:
    """Print a configuration with everything in its place, as YAML."""
    shown = load_config(name, overrides)
    _print_yaml(as_yaml(shown, changed_only=changed))
    if verl_too:
        from trainer.rl.settings import verl_config
        from trainer.rl.settings import verl_yaml as verl_yaml

        for role in shown.roles:
            _print_yaml(f"# What verl gets for the {role}\n")
            composed = verl_config(shown, role, Path(shown.for_agent(role).model.name))
            _print_yaml(verl_yaml(composed))


@config.command()
@click.argument("name", metavar="NAME|FILE")
@_overrides
def check(name: str, overrides: tuple[str, ...]) -> None:
    """Say whether a configuration can be used; every mistake with its place.

    verl composes its own configuration from it, and looks at the values too where the model is a folder here.
    """
    checked = _checked(name, overrides)
    from trainer.cli.doctor import refuse_without_model
    from trainer.rl import settings

    for role in checked.roles:
        model = Path(checked.for_agent(role).model.name)
        composed = settings.verl_config(checked, role, model)
        if model.is_dir():
            refuse_without_model(model)
            settings.check_settings(role, composed)
    agents = " and ".join(checked.roles)
    click.echo(
        f"{name} is right: {checked.algorithm.name} for {agents}, {checked.episodes_per_step} conversations a step."
    )


@config.command()
@click.argument("part", required=False, default="")
def fields(part: str) -> None:
    """Every setting: type, default, meaning. PART keeps those whose name begins so, for example `flow`."""
    found = [row for row in described() if row[0].startswith(part)]
    if not found:
        raise ConfigurationError(f"No setting begins with {part}.", "See `assay-train config fields`.")
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("setting", "value", "default", "meaning"):
        table.add_column(heading, overflow="fold", ratio=3 if heading == "meaning" else None)
    for row in found:
        # What a setting answers, such as [R11], is for those who have the requirements.
        cells = (re.sub(r" \[[RCT]\d[^]]*\]", "", cell.replace("\n", " ")) for cell in row)
        table.add_row(*(cell.replace("[", r"\[") for cell in cells))
    console = Console()
    # Whoever searches in it wants each name whole.
    (console if console.is_terminal else Console(width=400)).print(table)


@main.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the pages; `pages` in FOLDER.")
@click.option(
    "--last", type=click.IntRange(1), default=200, show_default=True, help="Most conversations; the newest."
)
def transcripts(folder: Path, out: Path | None, last: int) -> None:
    """Make web pages of a run's conversations: turn by turn, what changed, verdicts, rewards."""
    from trainer.reporting.transcript_page import write_pages

    out = out or (folder if folder.is_dir() else folder.parent) / "pages"
    with _written(out, "--out"):
        count = write_pages(folder, out, last=last)
    click.echo(f"{count} conversations: {out / 'index.html'}")


@main.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--out", type=click.Path(path_type=Path), help=f"PNG, SVG or PDF; {PICTURE} in FOLDER.")
def picture(folder: Path, out: Path | None) -> None:
    """Draw a run's curves: reward, compile and pass rates, turns."""
    from trainer.reporting import curves, metrics

    lines = metrics.read_measures(folder)
    if not lines:
        raise ConfigurationError(f"{folder} has no measures yet.", "Name the folder of a run, such as runs/cpu-demo.")
    out = out or folder / PICTURE
    if out.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ConfigurationError(f"{out} is no picture's name.", "End it with .png, .svg or .pdf.")
    with _written(out, "--out"):
        curves.draw_curves(lines, out, folder.name)
    click.echo(str(out))


@main.command()
@click.option("--config", "name", default="requirements", show_default=True, metavar="NAME|FILE")
@_overrides
def doctor(name: str, overrides: tuple[str, ...]) -> None:
    """Say what a run needs and this machine has: libraries, evaluator, GPUs, memory for its models."""
    from trainer.cli.doctor import examine

    wrong = 0
    for finding in examine(load_config(name, overrides)):
        mark = {True: "✓", False: "✗", None: "·"}[finding.ok]
        click.echo(f"{mark} {finding.name:<10} {finding.detail}")
        if finding.remedy and not finding.ok:
            click.echo(f"             {finding.remedy}")
        wrong += finding.ok is False
    sys.exit(1 if wrong else 0)


@main.command()
def cluster() -> None:
    """Print a Ray cluster file for `ray up`, to be changed to your needs."""
    from trainer.rl.processes import CLUSTER_FILE

    click.echo(CLUSTER_FILE.read_text(encoding="utf-8"), nl=False)


def _checked(name: str, overrides: tuple[str, ...]) -> TrainingConfig:
    """A configuration whose parts have been asked too whether they can be used. Raises ConfigurationError."""
    config = load_config(name, overrides)
    episode_settings(config)
    curriculum_of(config.curriculum)
    return config


def _as_ctrl_c(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextlib.contextmanager
def _only_run_in(folder: Path) -> Iterator[None]:
    """Raises ConfigurationError where another run has the same folder."""
    with _written(folder, "checkpointing.folder"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = (folder.parent / f".{folder.name}.lock").open("w")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigurationError(
                f"Another run is under way in {folder}.", "Wait for it, or give this one another name: name=…"
            ) from None
        yield


@contextlib.contextmanager
def _written(place: Path, setting: str) -> Iterator[None]:
    """Raises ConfigurationError where nothing can be written there."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigurationError(
            f"{place} cannot be written: {reason}.", f"Give another place: {setting}."
        ) from error


def _put_aside(folder: Path, but: str | None = None) -> None:
    """Give the folder of an earlier run another name; what is called `but` in it stays."""
    if not folder.exists():
        return
    number = 1
    while (aside := folder.with_name(f"{folder.name}.{number}")).exists():
        number += 1
    folder.rename(aside)
    if but and (aside / but).exists():
        folder.mkdir()
        (aside / but).rename(folder / but)
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
    """What is to be told after each step."""
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


def _print_yaml(text: str) -> None:
    console = Console()
    if console.is_terminal:
        console.print(Syntax(text, "yaml", background_color="default"))
    else:
        click.echo(text, nl=False)
