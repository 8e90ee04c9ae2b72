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
from evaluator.errors import UsageError
from evaluator.installation import own_command
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
    console = Screen()
    graded: list[tuple[str, Verdict, str]] = []
    started_s = time.monotonic()
    with contextlib.ExitStack() as ending:
        files = sorted(file for folder in _EXAMPLES for file in folder.glob("*.cu"))
        if not files:
            raise UsageError(f"There are no examples in {_EXAMPLES[0]}.", "Install Assay again: files are missing.")
        report_file = arguments.output_path(report_name)
        machine = MachineSettings.from_environment()
        # It starts while the examples are graded.
        service = ending.enter_context(remote.local_service(Toolbox(machine).sandbox.name))
        for file in files:
            raw = arguments.read_source(file)
            source = raw.decode()
            named = arguments.named_problem(raw)
            if named is None:
                raise UsageError(f"{file} does not name its problem.", "Begin it with `// problem: ID`.")
            settings = Settings(run_timeout_s=2.0)
            submission = Submission(problem=named, source=source, settings=settings)
            verdict = evaluate_anywhere(submission, find_problem(named), machine, raw, quiet=False)
            with printing():
                console.print(terminal.verdict_card(verdict, source, f"examples/{file.name}"))
            graded.append((f"examples/{file.name}", verdict, source))
        arguments.write_output(report_file, html.render_many(graded))
        took_s = time.monotonic() - started_s
        told = [f"Graded {len(graded)} kernels in {took_s:.1f} s."]
        address = service.address()
        started_s = time.monotonic()
        submission = Submission(problem="relu", source=_RELU)
        verdict = evaluate_anywhere(
            submission, find_problem("relu"), machine, _RELU.encode(), quiet=False, service=(address, None)
        )
        took_s = time.monotonic() - started_s
        body = submission.model_dump_json(include={"problem", "source"})
        assay = own_command()
        why = "" if verdict.status is Status.PASSED else f": {terminal.printable(verdict.message)}"
        told += [
            f"Over HTTP: {verdict.problem} {verdict.status} in {took_s:.1f} s at {address}, up for this alone{why}.",
            f"Report:    {terminal.printable(str(report_file.absolute()))}",
            f"Next:      {assay} problems softmax --starter > my.cu",
            f"           {assay} grade my.cu",
            f"           {assay} serve       a service; the same over HTTP is then",
            f"curl -s http://127.0.0.1:8000/evaluate -H 'Content-Type: application/json' -d '{body}'",
        ]
        with printing():
            for line in told:
                console.print(line, highlight=False, soft_wrap=True, markup=False)
