"""The command `assay problems`: what there is to compute."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evaluator.cli.console import EXIT_OTHER, EXIT_PASSED, printing

if TYPE_CHECKING:
    from evaluator.foreign.loading import SurveyedFile
    from evaluator.pipeline.toolbox import Toolbox
    from evaluator.problems.problem import Problem


@click.command(name="problems")
@click.argument("problem_id", metavar="[ID]", required=False)
@click.option("--starter", is_flag=True, help="Print only a source file to start from.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.option("--check", is_flag=True, help="Look for mistakes in the definition, as an author of problems wants.")
@click.option(
    "--kernelbench",
    "folder",
    type=click.Path(path_type=Path, exists=True),
    help="Say what can be promised of this KernelBench file, and show it as a problem; or of each file in a folder "
    "(needs PyTorch).",
)
@click.option(
    "--leetgpu",
    "challenges",
    type=click.Path(path_type=Path, exists=True),
    help="The same of a LeetGPU challenge.py, or of each in a folder and those below it.",
)
@click.option(
    "--tensara",
    "tensara",
    type=click.Path(path_type=Path, exists=True),
    help="The same of a Tensara def.py, or of each there.",
)
@click.option(
    "--trace",
    "traces",
    type=click.Path(path_type=Path, exists=True),
    help="The same of a definition of FlashInfer Trace, or of each there, with the first of its workloads.",
)
def show_problems(
    problem_id: str | None,
    starter: bool,
    as_json: bool,
    check: bool,
    folder: Path | None,
    challenges: Path | None,
    tensara: Path | None,
    traces: Path | None,
) -> None:
    """List the problems, or show all that a kernel author needs to know about one."""
    # Here, since `--help` needs none of it.
    from evaluator.cli.screen import Screen
    from evaluator.errors import UsageError
    from evaluator.problems.catalogue import find_problem, problems
    from evaluator.report import terminal

    folders = {"*.py": folder, "challenge.py": challenges, "def.py": tensara, "*.json": traces}
    given = [(pattern, one) for pattern, one in folders.items() if one is not None]
    if given:
        if problem_id or check or len(given) > 1:
            raise UsageError(
                "--kernelbench, --leetgpu, --tensara and --trace are each about files of others.",
                "Give one of them, without ID and --check.",
            )
        if starter and (as_json or given[0][1].is_dir()):
            raise UsageError("--starter prints the source for one file.", "Give one file, without --json.")
        sys.exit(_survey(given[0][1], given[0][0], as_json, starter))
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


def _survey(folder: Path, pattern: str, as_json: bool, starter: bool) -> int:
    """Print a line for each file as it becomes known, and at the end how many are what; the exit code.

    `folder` may be one file: beside its line that prints the problem's card, or its `starter` alone.
    """
    from rich.console import Console

    from common.contract import name_of_file
    from evaluator.cli.arguments import read_source
    from evaluator.cli.screen import Screen
    from evaluator.errors import UsageError
    from evaluator.foreign.loading import SurveyedFile
    from evaluator.foreign.reference import remedy_for
    from evaluator.foreign.sources import definitions_in, trace_text
    from evaluator.pipeline.toolbox import Toolbox
    from evaluator.report.terminal import printable, problem_card
    from evaluator.settings import MachineSettings

    traces = pattern == "*.json"
    files = [folder]
    if folder.is_dir():
        files = definitions_in(folder) if traces else sorted(folder.rglob(pattern))
    if not files:
        raise UsageError(f"There is no {pattern} in {folder}.", "Give a folder of such files.")
    toolbox = Toolbox(MachineSettings.from_environment())
    console = Console(stderr=True)
    console.quiet = not console.is_terminal
    found: list[SurveyedFile] = []
    with console.status("reading") as status:
        for at, file in enumerate(files):
            name = str(file.relative_to(folder)) if folder.is_dir() else file.name
            status.update(f"{at + 1} of {len(files)}: {printable(name)}")
            try:
                text = trace_text(file) if traces else read_source(file, "Make it readable.")
            except UsageError as unread:
                one = SurveyedFile(name, str(unread), "reading")
            else:
                one = _surveyed(text, name_of_file(file), toolbox, name)
            found.append(one)
            if not as_json and not starter:
                with printing():
                    click.echo(f"{'FAIL' if one.refused else 'ok  '}  {printable(name)}: {printable(_in_words(one))}")
                    if one.refused_at == "reading" and not folder.is_dir():
                        click.echo(f"      {remedy_for(one.refused)}")
    if starter and found[0].face is None:
        raise UsageError(found[0].refused, remedy_for(found[0].refused) if found[0].refused_at else None)
    with printing():
        if as_json:
            click.echo(json.dumps([_as_json(one) for one in found], indent=2))
        elif folder.is_dir():
            click.echo(_totals(found))
        elif found[0].face is not None and starter:
            click.echo(found[0].face.starter, nl=False)
        elif found[0].face is not None:
            Screen().print(problem_card(found[0].face))
    return EXIT_OTHER if any(one.refused for one in found) else EXIT_PASSED


def _as_json(one: "SurveyedFile") -> dict[str, object]:
    """A line's facts."""
    told = asdict(replace(one, face=None))
    del told["face"]
    return told


def _surveyed(text: bytes, file_name: str, toolbox: "Toolbox", name: str) -> "SurveyedFile":
    from evaluator.errors import InfrastructureError
    from evaluator.foreign.loading import SurveyedFile, survey_file

    try:
        return replace(survey_file(text, file_name, toolbox.sandbox, toolbox.cache), name=name)
    except InfrastructureError as fault:  # the next one may go well
        return SurveyedFile(name, f"{fault} {fault.remedy or ''}".strip())


def _in_words(one: "SurveyedFile") -> str:
    if one.refused:
        kind = {
            None: "not known, since this machine failed",
            "reading": "does not load",
            "calibrating": "loads, does not calibrate",
            "judging": "loads, calibrates, degenerate",
        }
        again = " A busy machine may be why: run it again alone." if one.ended else ""
        return f"{kind[one.refused_at]}: {one.refused}{again}"
    told = [f"tells {name} ({times:.3g}x)" for name, times in one.told.items() if name not in one.untold]
    untold = [f"cannot tell {name} ({one.told[name]:.2g}x)" for name in one.untold]
    varies = f"varies {', '.join(one.varies)}" if one.varies else "known at its own shapes only"
    smaller = ["judged at smaller sizes"] * one.at_smaller_sizes
    return "; ".join(["loads, calibrates", *told, *untold, varies, *smaller, f"{one.duration_s:.1f} s"])


def _totals(found: "Sequence[SurveyedFile]") -> str:
    refused_at = [one.refused_at for one in found]
    degenerate = refused_at.count("judging")
    usable = [one for one in found if not one.refused]
    unknown = sum(bool(one.refused) and one.refused_at is None for one in found)
    ended = sum(one.ended for one in found)
    again = f"; {ended} ran out of time or memory, and of {unknown} this machine failed" if ended or unknown else ""
    tell = sum("TF32" in one.told and "TF32" not in one.untold for one in usable)
    files = "1 file" if len(found) == 1 else f"{len(found)} files"
    return (
        f"{files}: {len(found) - unknown - refused_at.count('reading')} load, "
        f"{len(usable) + degenerate} calibrate, {degenerate} are degenerate; "
        f"of the {len(usable)} that can be graded {tell} tell TF32 from float32, "
        f"{sum(bool(one.varies) for one in usable)} vary, "
        f"{sum(one.at_smaller_sizes for one in usable)} are judged at smaller sizes{again}"
    )
