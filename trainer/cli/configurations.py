"""`assay-train config`: configurations checked, and printed for people."""

import re
from pathlib import Path

import click
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

from trainer.config.reading import as_yaml, described, load_config, ready_files
from trainer.config.schema import TrainingConfig
from trainer.conversation.episode import episode_settings
from trainer.errors import ConfigurationError
from trainer.rl.curriculum import curriculum_of


def checked_config(name: str, overrides: tuple[str, ...]) -> TrainingConfig:
    """A configuration that each part of the trainer can use. Raises ConfigurationError."""
    config = load_config(name, overrides)
    episode_settings(config)
    curriculum_of(config.curriculum)
    return config


def check_with_verl(configuration: str, overrides: tuple[str, ...]) -> TrainingConfig:
    """The same, after verl too has composed its own configuration from it. Raises ConfigurationError."""
    checked = checked_config(configuration, overrides)
    from trainer.cli.doctor import folder_named, refuse_without_model, refuse_wrong_tasks
    from trainer.rl import settings

    refuse_wrong_tasks(checked)
    for role in checked.roles:
        name = checked.for_agent(role).model.name
        composed = settings.verl_config(checked, role, Path(name))
        if (model := folder_named(name)) is not None:
            refuse_without_model(model)
            settings.check_settings(role, composed)
    return checked


def print_ready() -> None:
    """The configurations that are ready, one a line."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for nowrap in (True, True, False):
        table.add_column(no_wrap=nowrap)
    for each in ready_files():
        table.add_row(each.name, each.alias or "", each.summary)
    Console().print(table)


def print_configuration(name: str, overrides: tuple[str, ...], *, verl_too: bool, changed: bool) -> None:
    """A configuration as YAML; `verl_too` adds what verl gets, `changed` leaves the defaults out."""
    shown = load_config(name, overrides)
    _print_yaml(as_yaml(shown, changed_only=changed))
    if verl_too:
        from trainer.rl.settings import verl_config, verl_yaml

        for role in shown.roles:
            _print_yaml(f"# What verl gets for the {role}\n")
            composed = verl_config(shown, role, Path(shown.for_agent(role).model.name))
            _print_yaml(verl_yaml(composed))


def print_fields(part: str) -> None:
    """Every setting whose name begins with `part`: type, default, meaning. Raises ConfigurationError for none."""
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
    # A search in the output needs each name whole.
    (console if console.is_terminal else Console(width=400)).print(table)


def _print_yaml(text: str) -> None:
    console = Console()
    if console.is_terminal:
        console.print(Syntax(text, "yaml", background_color="default"))
    else:
        click.echo(text, nl=False)
