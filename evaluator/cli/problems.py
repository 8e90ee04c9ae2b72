"""The command `assay problems`: what there is to compute."""

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from evaluator.cli.console import EXIT_OTHER, EXIT_PASSED, printing

if TYPE_CHECKING:
    from evaluator.problems.problem import Problem


@click.command(name="problems")
@click.argument("problem_id", metavar="[ID]", required=False)
@click.option("--starter", is_flag=True, help="Print only a source file to start from.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.option("--check", is_flag=True, help="Look for mistakes in the definition, as an author of problems wants.")
def show_problems(problem_id: str | None, starter: bool, as_json: bool, check: bool) -> None:
    """List the problems, or show all that a kernel author needs to know about one."""
    # Here, since `--help` needs none of it.
    from evaluator.cli.screen import Screen
    from evaluator.errors import UsageError
    from evaluator.problems.catalogue import find_problem, problems
    from evaluator.report import terminal

    if starter and problem_id is None:
        raise UsageError("A starter file for which problem?", "Run `assay problems ID --starter`.")
    if check and (starter or as_json):
        raise UsageError("--check prints no problem.", "Leave out --starter and --json.")
    chosen = [find_problem(problem_id)] if problem_id else list(problems().values())
    if check:
        sys.exit(_check(chosen))
    faces = [problem.face for problem in chosen]
    with printing():
        if starter:
            click.echo(faces[0].starter, nl=False)
        elif as_json:
            dumped = [face.model_dump(mode="json") for face in faces]
            click.echo(json.dumps(dumped[0] if problem_id else dumped, indent=2))
        elif problem_id:
            Screen().print(terminal.problem_card(faces[0]))
        else:
            Screen().print(terminal.problem_table(faces))


def _check(chosen: "Sequence[Problem]") -> int:
    """Print what the linter says of each problem; the exit code."""
    from evaluator.problems.linter import lint

    code = EXIT_PASSED
    for problem in chosen:
        faults = lint(problem)
        with printing():
            click.echo(f"{'FAIL' if faults else 'ok  '}  {problem.id}")
            for fault in faults:
                click.echo(f"      {fault}")
        code = EXIT_OTHER if faults else code
    return code
