"""The command `assay demo`: the examples graded, a report, and one kernel graded over HTTP."""

import contextlib
import time
from pathlib import Path

import click

from common.contract import Settings, Status, Submission, Verdict
from evaluator.cli import arguments, remote
from evaluator.cli.console import printing
from evaluator.cli.grade import evaluate_anywhere
from evaluator.cli.screen import Screen
from evaluator.cli.service import missing_libraries
from evaluator.errors import UsageError
from evaluator.installation import install_command, own_command
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.catalogue import find_problem
from evaluator.report import html, terminal
from evaluator.settings import MachineSettings

_RELU = (
    "__global__ void relu(const float* x, float* y, int n)"
    " { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = fmaxf(x[i], 0.0f); }"
)
# In a wheel beside this file; in a checkout at its top.
_EXAMPLES = tuple(folder / "examples" for folder in (Path(__file__).parent, Path(__file__).parents[2]))


@click.command()
@click.option(
    "--report",
    "report_name",
    metavar="FILE",
    default="assay-report.html",
    show_default=True,
    help="Where to write the HTML report.",
)
def demo(report_name: str) -> None:
    """Grade the example kernels, show a verdict card for each, write one report, and grade over HTTP."""
    files = sorted(file for folder in _EXAMPLES for file in folder.glob("*.cu"))
    if not files:
        raise UsageError(f"There are no examples in {_EXAMPLES[0]}.", "Install Assay again: files are missing.")
    report_file = arguments.output_path(report_name)
    machine = MachineSettings.from_environment()
    missing = missing_libraries()
    with contextlib.ExitStack() as ending:
        # It starts while the examples are graded.
        service = None if missing else ending.enter_context(remote.local_service(Toolbox(machine).sandbox.name))
        started_s = time.monotonic()
        graded = [_graded_example(file, machine) for file in files]
        arguments.write_output(report_file, html.render_many(graded))
        # Printed at once: a service that fails takes nothing of it back.
        _print_lines(
            f"Graded {len(graded)} kernels in {time.monotonic() - started_s:.1f} s.",
            f"Report:    {terminal.printable(str(report_file.absolute()))}",
        )
        over_http: tuple[str, ...]
        if service is None:
            over_http = (
                f"Over HTTP: not shown, since a service needs {', '.join(missing)}. To install what it needs:",
                f"           {install_command('service')}",
            )
        else:
            over_http = (_graded_over_http(service.address(), machine),)
    assay = own_command()
    _print_lines(
        *over_http,
        f"Next:      {assay} problems softmax --starter > my.cu",
        f"           {assay} grade my.cu",
    )
    if service is not None:
        body = Submission(problem="relu", source=_RELU).model_dump_json(include={"problem", "source"})
        _print_lines(
            f"           {assay} serve       a service; the same over HTTP is then",
            f"curl -s http://127.0.0.1:8000/evaluate -H 'Content-Type: application/json' -d '{body}'",
        )


def _graded_example(file: Path, machine: MachineSettings) -> tuple[str, Verdict, str]:
    """Grade one example and print its card: its name, its verdict and its text."""
    raw = arguments.read_source(file)
    source, name = raw.decode(), f"examples/{file.name}"
    problem_id = arguments.named_problem(raw)
    if problem_id is None:
        raise UsageError(f"{file} does not name its problem.", "Begin it with `// problem: ID`.")
    submission = Submission(problem=problem_id, source=source, settings=Settings(run_timeout_s=2.0))
    verdict = evaluate_anywhere(submission, find_problem(problem_id), machine, raw, quiet=False)
    with printing():
        Screen().print(terminal.verdict_card(verdict, source, name))
    return name, verdict, source


def _graded_over_http(address: str, machine: MachineSettings) -> str:
    """Grade one kernel at a service: a line about it. Raises InfrastructureError."""
    started_s = time.monotonic()
    submission, problem = Submission(problem="relu", source=_RELU), find_problem("relu")
    verdict = evaluate_anywhere(submission, problem, machine, _RELU.encode(), quiet=False, service=(address, None))
    took_s = time.monotonic() - started_s
    why = "" if verdict.status is Status.PASSED else f": {terminal.printable(verdict.message)}"
    return f"Over HTTP: {verdict.problem} {verdict.status} in {took_s:.1f} s at {address}, up for this alone{why}."


def _print_lines(*lines: str) -> None:
    console = Screen()
    with printing():
        for line in lines:
            console.print(line, highlight=False, soft_wrap=True, markup=False)
