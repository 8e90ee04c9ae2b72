"""The command `assay diff`: what changed from one version of a kernel to the next, and what that did."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console

from common.contract import Status, Submission, Verdict, is_foreign_problem
from evaluator.cli import arguments
from evaluator.cli.chosen_problem import STATED
from evaluator.cli.console import keep_freed_memory
from evaluator.errors import InfrastructureError, UsageError
from evaluator.problems.catalogue import find_problem
from evaluator.problems.problem import Problem
from evaluator.report.terminal import printable
from evaluator.settings import MachineSettings

if TYPE_CHECKING:
    from evaluator.diff.compare import Difference

_NARROWEST: Final = 60
_NOT_JUDGED: Final = (Status.INTERNAL_ERROR, Status.CANCELLED)


@click.command()
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.option("--problem", "problem_id", help="What both compute; else their first lines say it.")
@click.option("--backend", type=click.Choice(["auto", "gpu", "sim"]), default="auto", show_default=True)
@click.option("--arch", help="GPU architecture to compile for, for example sm_90.")
@click.option("--flag", "flags", multiple=True, help="An nvcc flag for both; repeatable.")
@arguments.verification_options
@click.option("--json", "as_json", is_flag=True, help="Print the difference as JSON and nothing else.")
@click.option("--report", "report_name", metavar="FILE", help="Write it as an HTML page.")
def diff(
    before: Path,
    after: Path,
    problem_id: str | None,
    backend: str,
    arch: str | None,
    flags: tuple[str, ...],
    verification: str,
    quick: bool,
    as_json: bool,
    report_name: str | None,
) -> None:
    """Grade BEFORE and AFTER on the same trials and say what changed: exit 0, whatever the verdicts are."""
    raws = [arguments.read_source(file) for file in (before, after)]
    problem = _problem(problem_id, (before, after), raws)
    outputs = [arguments.output_path(report_name, file) for file in (before, after) if report_name is not None]
    settings = arguments.submission_settings(
        {"arch": arch, "flags": flags, "verification": "quick" if quick else verification}
    )
    submissions = [
        Submission.model_validate(
            {"problem": problem.id, "source": raw.decode(errors="replace"), "backend": backend, "settings": settings}
        )
        for raw in raws
    ]
    # Slow to import, and every other command would wait for it.
    from evaluator.diff import render as looks
    from evaluator.diff.compare import compare, grade_both
    from evaluator.pipeline.toolbox import Toolbox

    keep_freed_memory()
    told = Console(stderr=True)
    told.quiet = as_json or not told.is_terminal
    with told.status("grading") as status:
        verdicts = grade_both(
            submissions,
            raws,
            Toolbox(MachineSettings.from_environment()),
            lambda event: status.update(f"grading: {event}"),
            problem,
        )
    names = _names(before, after)
    _check(names, verdicts)
    difference = compare(*((n, s.source, v) for n, s, v in zip(names, submissions, verdicts, strict=True)))
    if as_json:
        click.echo(difference.to_json())
    else:
        _show(difference)
    if outputs:
        arguments.write_output(outputs[0], looks.diff_page(difference))
        if not as_json:
            click.echo(f"report: {printable(str(outputs[0]))}")


def _show(difference: "Difference") -> None:
    from evaluator.diff.render import diff_card

    console = Console()
    console.width = max(console.width, _NARROWEST)
    console.print(diff_card(difference))
    sys.stdout.flush()


def _problem(given: str | None, files: tuple[Path, Path], raws: list[bytes]) -> Problem:
    if files[0] == files[1]:
        raise UsageError(f"{files[0]} is named twice: there is nothing to compare.", "Name the two versions.")
    named = [arguments.named_problem(raw) for raw in raws]
    if given is None and None not in named and named[0] != named[1]:
        raise UsageError(
            f"{files[0]} is for {named[0]} and {files[1]} for {named[1]}.",
            "Compare two versions for one problem, or say which with --problem ID.",
        )
    chosen = given or named[0] or named[1]
    if chosen is None:
        raise UsageError("Which problem?", "Add --problem ID, or a first line `// problem: ID` to one of the files.")
    if is_foreign_problem(chosen) or STATED.fullmatch(chosen):
        raise UsageError(
            f"`assay diff` compares for problems of Assay's own, and {chosen} is one of others.",
            "Grade both versions with `assay grade` and compare the verdicts (docs/foreign_problems.md).",
        )
    return find_problem(chosen)


def _names(before: Path, after: Path) -> tuple[str, str]:
    """File names, with their folders where the names are the same."""
    return (before.name, after.name) if before.name != after.name else (str(before), str(after))


def _check(names: tuple[str, str], verdicts: list[Verdict]) -> None:
    for name, verdict in zip(names, verdicts, strict=True):
        if verdict.status in _NOT_JUDGED:
            raise InfrastructureError(f"{name} could not be graded: {verdict.message}", verdict.hint)
