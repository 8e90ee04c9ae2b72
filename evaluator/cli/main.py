"""The command `assay`: grade a file, look at problems, examine this machine."""

import contextlib
import os
from importlib import import_module
from typing import Final

import click

from evaluator import __version__
from evaluator.cli.console import importing, plain_errors

COMMANDS: Final = {
    "demo": ("demo", "demo"),
    "diff": ("diff", "diff"),
    "doctor": ("doctor", "doctor"),
    "env": ("service", "print_env"),
    "grade": ("grade", "grade"),
    "keys": ("service", "keys"),
    "problems": ("problems", "show_problems"),
    "serve": ("service", "serve"),
    "verify": ("verify", "verify"),
    "worker": ("service", "worker"),
}
"""The module and the name of each command: what it imports takes longer than to say what commands there are."""
SHORT_HELP: Final = {
    "demo": "Grade the example kernels, show a verdict card for each, write one report, and grade over HTTP.",
    "diff": "Grade BEFORE and AFTER on the same trials and say what changed: exit 0, whatever the verdicts are.",
    "doctor": "Say what works on this machine, what does not, and the command that fixes it.",
    "env": "Print the `.env` of docker-compose.yml, with new secrets: `assay env > .env`, once for each stack.",
    "grade": "Grade FILE (`-` reads standard input): exit 0 passed, 1 any other verdict, 2 usage, 3 our own fault.",
    "keys": "Keys of callers (while there is none, a service is for loopback alone), and the one that signs "
    "verdicts.",
    "problems": "List the problems, or show all that a kernel author needs to know about one.",
    "serve": "Grade over HTTP until it is stopped: an API, a queue and workers in one command.",
    "verify": "Check RECEIPT: a verdict (`assay grade --receipt`, `--json`), an evaluation of a service, its "
    "address, or `-`.",
    "worker": "Grade what waits in the queues of a service (ASSAY_BROKER_URL, ASSAY_DATABASE_URL) until stopped.",
}
"""The first sentence of each command's help, as `assay --help` shows it."""


class _Commands(click.Group):
    """All commands, each imported when it is asked for; an error in any becomes text here, with its remedy."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name]
        with importing():
            found: click.Command = getattr(import_module(f"evaluator.cli.{module}"), name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            limit = formatter.width - 6 - max(map(len, COMMANDS))
            formatter.write_dl(
                [
                    (name, click.Command(name, help=text).get_short_help_str(limit))
                    for name, text in SHORT_HELP.items()
                ]
            )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if name not in ("serve", "worker"):  # a service writes it to its log
            _warn_of_unknown_variables()
        return name, command, rest

    def invoke(self, ctx: click.Context) -> object:
        with plain_errors():
            return super().invoke(ctx)


def _warn_of_unknown_variables() -> None:
    if not any(name.startswith("ASSAY_") for name in os.environ):
        return
    from evaluator.settings import unknown_variables

    for told in unknown_variables():
        from evaluator.report.terminal import printable

        with contextlib.suppress(OSError):  # where nothing can be printed, the command still runs
            click.echo(f"assay: {printable(told)}", err=True)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="assay")
def main() -> None:
    """Grade CUDA kernels honestly, on any machine."""
