"""The command `assay problems`: what there is to compute."""

import json

import click

from evaluator.cli.console import plain_errors, printing


@click.command(name="problems")
@click.argument("problem_id", metavar="[ID]", required=False)
@click.option("--starter", is_flag=True, help="Print only a source file to start from.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def show_problems(problem_id: str | None, starter: bool, as_json: bool) -> None:
    """List the problems, or show all that a kernel author needs to know about one."""
    with plain_errors():
        # Here, since `--help` needs none of it.
        from evaluator.cli.screen import Screen
        from evaluator.errors import UsageError
        from evaluator.problems.catalogue import find_problem, problems
        from evaluator.report import terminal

        if starter and problem_id is None:
            raise UsageError("A starter file for which problem?", "Run `assay problems ID --starter`.")
        chosen = [find_problem(problem_id)] if problem_id else list(problems().values())
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
