"""The command `assay`: grade a file, look at problems, examine this machine."""

import contextlib
import json
import os
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import click
from rich.console import Console

from common.contract import GpuName, RewardName, Settings, Status, Submission, Verdict
from evaluator import __version__
from evaluator.cli import arguments, diff, verify
from evaluator.cli import service as service_commands
from evaluator.errors import AssayError, InfrastructureError, InternalError, UsageError
from evaluator.installation import own_command
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox
from evaluator.pipeline.without_result import verdict_without_result
from evaluator.problems.catalogue import find_problem, problems
from evaluator.problems.problem import Problem
from evaluator.report import html, terminal
from evaluator.settings import MachineSettings, ServiceSettings, unknown_variables

EXIT_PASSED, EXIT_OTHER, EXIT_USAGE, EXIT_INTERNAL = 0, 1, 2, 3
EXIT_INTERRUPTED = 130
_MAX_ERROR_CHARS = 2000
_NARROWEST = 40
_SHRINK_S = 10.0
_RELU = (
    "__global__ void relu(const float* x, float* y, int n)"
    " { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = fmaxf(x[i], 0.0f); }"
)
# In a wheel beside this file; in a checkout at its top.
_EXAMPLES = tuple(folder / "examples" for folder in (Path(__file__).parent, Path(__file__).parents[2]))


class CommandError(click.ClickException):
    """An error that is shown as one or two lines, never as a traceback."""

    exit_code = EXIT_USAGE

    def show(self, file: object = None) -> None:
        # File names and problem ids come from outside: no terminal escape, and not more than a screen.
        shown = terminal.printable(self.message)
        if len(shown) > _MAX_ERROR_CHARS:
            shown = shown[:_MAX_ERROR_CHARS] + " ..."
        with contextlib.suppress(OSError):  # where nobody can be told, the exit code still tells
            click.echo(f"assay: {shown}", err=True)


class InternalCommandError(CommandError):
    """Our own fault."""

    exit_code = EXIT_INTERNAL


class InterruptedCommandError(CommandError):
    """Ctrl-C."""

    exit_code = EXIT_INTERRUPTED


class Screen(Console):
    """Standard output, never narrower than a card needs; a reader that has gone away is no error."""

    def __init__(self) -> None:
        super().__init__()
        self.width = max(self.width, _NARROWEST)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Whatever goes wrong, as text with its remedy: a traceback would end with the exit code of a bad submission."""
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except KeyboardInterrupt as error:
        raise InterruptedCommandError("interrupted; everything that ran was ended.") from error
    except UsageError as error:
        raise CommandError(_with_remedy(error)) from error
    except AssayError as error:
        raise InternalCommandError(_with_remedy(error)) from error
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise InternalCommandError(
            f"This is a mistake in Assay itself: {type(error).__name__}: {error} "
            f"({Path(where.filename).name}:{where.lineno}).\n       Please report it, with the file if you can."
        ) from error


@contextmanager
def _printing() -> Iterator[None]:
    """What is printed to standard output here is flushed too; whoever stops reading does not change the exit code."""
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        # Python flushes once more at its end, and would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise InternalCommandError(f"Standard output cannot be written: {error.strerror}.") from error


def _with_remedy(error: AssayError) -> str:
    return f"{error}\n       {error.remedy}" if error.remedy else str(error)


class _Commands(click.Group):
    """All commands: whatever goes wrong in one of them is told in plain words."""

    def invoke(self, ctx: click.Context) -> object:
        with _plain_errors():
            # A service writes it to its log, and a reader of Assay's output sees the output alone.
            if ctx.invoked_subcommand not in ("serve", "worker"):
                for told in unknown_variables():
                    with contextlib.suppress(OSError):
                        click.echo(f"assay: {terminal.printable(told)}", err=True)
            return super().invoke(ctx)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="assay")
def main() -> None:
    """Grade CUDA kernels honestly, on any machine."""


main.add_command(service_commands.serve)
main.add_command(service_commands.keys)
main.add_command(verify.verify)
main.add_command(diff.diff)


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--problem", "problem_id", help="What the kernel computes; see `assay problems`.")
@click.option("--plan", "plan_file", type=click.Path(path_type=Path), help="Launch plan as a JSON file.")
@click.option("--backend", type=click.Choice(["auto", "gpu", "sim"]), default="auto", show_default=True)
@click.option("--size", "sizes", multiple=True, metavar="NAME=N", help="Grade at this size as well; repeatable.")
@click.option("--arch", help="GPU architecture to compile for, for example sm_90.")
@click.option("--flag", "flags", multiple=True, help="An nvcc flag, for example --flag=--use_fast_math; repeatable.")
@click.option(
    "--reward", type=click.Choice([name.value for name in RewardName]), default="weighted", show_default=True
)
@click.option("--target-speedup", type=float, default=2.0, show_default=True)
@click.option(
    "--timeout", "timeout_s", type=float, default=30.0, show_default=True, help="Limit of all runs, seconds."
)
@click.option(
    "--compile-timeout", "compile_timeout_s", type=float, default=30.0, show_default=True, help="Of all compiling."
)
@click.option(
    "--gpu",
    "estimate_for",
    type=click.Choice([*get_args(GpuName), "none"]),
    default="H100",
    show_default=True,
    help="Whose time to estimate where no GPU measures it.",
)
@click.option("--profile", is_flag=True, help="On a GPU, read its counters too (Nsight Compute).")
@click.option("--shrink", is_flag=True, help="Where it fails, look for the smallest size that does (10 s).")
@click.option("--shrink-s", type=float, metavar="S", help="Look so long, up to 30 seconds.")
@click.option("--repro", "repro_name", metavar="FILE", help="Write a program that shows the fault; shrinks too.")
@click.option("--json", "as_json", is_flag=True, help="Print one verdict as JSON and nothing else.")
@click.option("--report", "report_name", metavar="FILE", help="Write an HTML report to this file.")
@click.option("--receipt", "receipt_name", metavar="FILE", help="Write the signed verdict, for `assay verify`.")
@click.option("--server", metavar="URL", help="Grade at this service instead of on this machine.")
@click.option("--key", envvar="ASSAY_KEY", show_envvar=True, help="The service's key; better in the variable.")
def grade(
    file: Path,
    problem_id: str | None,
    plan_file: Path | None,
    backend: str,
    sizes: tuple[str, ...],
    arch: str | None,
    flags: tuple[str, ...],
    reward: str,
    target_speedup: float,
    timeout_s: float,
    compile_timeout_s: float,
    estimate_for: str,
    profile: bool,
    shrink: bool,
    shrink_s: float | None,
    repro_name: str | None,
    as_json: bool,
    report_name: str | None,
    receipt_name: str | None,
    server: str | None,
    key: str | None,
) -> None:
    """Grade FILE (`-` reads standard input): exit 0 passed, 1 any other verdict, 2 usage, 3 our own fault."""
    with _plain_errors():
        raw = arguments.read_source(file)
        chosen = problem_id or arguments.named_problem(raw)
        if chosen is None:
            raise UsageError("Which problem?", "Add --problem ID, or a first line `// problem: ID` to the file.")
        problem = find_problem(chosen)
        report_file = arguments.output_path(report_name, file) if report_name is not None else None
        receipt_file = arguments.output_path(receipt_name, file, "receipt") if receipt_name is not None else None
        repro_file = arguments.output_path(repro_name, file, "repro") if repro_name is not None else None
        settings = arguments.submission_settings(
            {
                "sizes": arguments.sizes_of(sizes),
                "arch": arch,
                "flags": flags,
                "reward": reward,
                "target_speedup": target_speedup,
                "run_timeout_s": timeout_s,
                "compile_timeout_s": compile_timeout_s,
                "estimate_for": None if estimate_for == "none" else estimate_for,
                "profile": profile,
                "shrink_s": shrink_s if shrink_s is not None else _SHRINK_S * (shrink or repro_name is not None),
            }
        )
        plan = arguments.plan_in(plan_file) if plan_file else None
        source = raw.decode(errors="replace")
        submission = Submission.model_validate(
            {"problem": chosen, "source": source, "plan": plan, "backend": backend, "settings": settings}
        )
        service = (server, key) if server is not None else None
        verdict = _evaluate(
            submission, problem, MachineSettings.from_environment(), raw, quiet=as_json, service=service
        )
        with _printing():
            if as_json:
                click.echo(verdict.model_dump_json(indent=2))
            else:
                Screen().print(terminal.verdict_card(verdict, source, str(file)))
        if receipt_file:
            arguments.write_output(receipt_file, verdict.model_dump_json(indent=2) + "\n")
        if repro_file:
            _reproduce(repro_file, submission, raw, verdict)
        if report_file:
            arguments.write_output(
                report_file, html.render(verdict, source, "standard input" if str(file) == "-" else file.name)
            )
            if not as_json:
                with _printing():
                    click.echo(f"report: {terminal.printable(str(report_file))}")
    sys.exit(_exit_code(verdict))


@main.command(name="problems")
@click.argument("problem_id", metavar="[ID]", required=False)
@click.option("--starter", is_flag=True, help="Print only a source file to start from.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def show_problems(problem_id: str | None, starter: bool, as_json: bool) -> None:
    """List the problems, or show all that a kernel author needs to know about one."""
    with _plain_errors():
        if starter and problem_id is None:
            raise UsageError("A starter file for which problem?", "Run `assay problems ID --starter`.")
        chosen = [find_problem(problem_id)] if problem_id else list(problems().values())
        faces = [problem.face for problem in chosen]
        with _printing():
            if starter:
                starter_text = faces[0].starter
                named = arguments.named_problem(starter_text.encode())
                click.echo(starter_text if named else f"// problem: {faces[0].id}\n{starter_text}", nl=False)
            elif as_json:
                dumped = [face.model_dump(mode="json") for face in faces]
                click.echo(json.dumps(dumped[0] if problem_id else dumped, indent=2))
            elif problem_id:
                Screen().print(terminal.problem_card(faces[0]))
            else:
                Screen().print(terminal.problem_table(faces))


@main.command()
def doctor() -> None:
    """Say what works on this machine, what does not, and the command that fixes it."""
    # It looks at GPUs and at a service, which no other command does.
    from evaluator.cli.doctor import examine

    broken = False
    with _plain_errors():
        for finding in examine(Toolbox(MachineSettings.from_environment())):
            mark = {True: "ok  ", False: "FAIL", None: "note"}[finding.ok]
            with _printing():
                click.echo(f"{mark}  {finding.name:12} {terminal.printable(finding.detail)}")
                if finding.remedy:
                    click.echo(f"      {'':12} {terminal.printable(finding.remedy)}")
            broken = broken or finding.ok is False
    sys.exit(EXIT_OTHER if broken else EXIT_PASSED)


@main.command()
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
    from evaluator.cli import remote

    console = Screen()
    graded: list[tuple[str, Verdict, str]] = []
    started_s = time.monotonic()
    with _plain_errors(), contextlib.ExitStack() as ending:
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
            verdict = _evaluate(submission, find_problem(named), machine, raw, quiet=False)
            with _printing():
                console.print(terminal.verdict_card(verdict, source, f"examples/{file.name}"))
            graded.append((f"examples/{file.name}", verdict, source))
        arguments.write_output(report_file, html.render_many(graded))
        took_s = time.monotonic() - started_s
        told = [f"Graded {len(graded)} kernels in {took_s:.1f} s."]
        address = service.address()
        started_s = time.monotonic()
        submission = Submission(problem="relu", source=_RELU)
        verdict = _evaluate(
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
            f"           {assay} grade my.cu --problem softmax",
            f"           {assay} serve       a service; the same over HTTP is then",
            f"curl -s http://127.0.0.1:8000/evaluate -H 'Content-Type: application/json' -d '{body}'",
        ]
        with _printing():
            for line in told:
                console.print(line, highlight=False, soft_wrap=True, markup=False)


@main.command()
@click.option("--queues", default="compile,sim", show_default=True, help="Of compile, sim, gpu and gpu.UUID.")
@click.option("--workers", "processes", type=click.IntRange(1, 1024), help="Processes; else one for each CPU.")
@click.option("--embedded", is_flag=True, hidden=True, help="Be one of the workers inside `assay serve`.")
def worker(queues: str, processes: int | None, embedded: bool) -> None:
    """Grade what waits in the queues of a service (ASSAY_BROKER_URL, ASSAY_DATABASE_URL) until stopped."""
    # What they import takes as long as a whole grading.
    code = 0
    with _plain_errors():
        machine, settings = MachineSettings.from_environment(), ServiceSettings.from_environment()
        if embedded:
            from evaluator.service.workers.worker import run_embedded

            run_embedded(machine, settings)
        else:
            from evaluator.service.storage.models import is_gpu_queue
            from evaluator.service.workers.celery_app import run_workers

            chosen = tuple(name.strip() for name in queues.split(",") if name.strip())
            one_gpu = any(map(is_gpu_queue, chosen))
            code = run_workers(machine, settings, chosen, processes or (1 if one_gpu else os.cpu_count() or 1))
    sys.exit(code)


def _evaluate(
    submission: Submission,
    problem: Problem,
    machine: MachineSettings,
    raw: bytes,
    quiet: bool,
    service: tuple[str, str | None] | None = None,
) -> Verdict:
    """Grade here, or at a service (its address and key), with a line of progress on a terminal's stderr.

    Whatever fails that is ours is a verdict too.
    """
    console = Console(stderr=True)
    console.quiet = quiet or not console.is_terminal
    try:
        with console.status("grading") as status:

            def tell(now: object) -> None:
                status.update(f"grading: {now}")

            if service is not None:
                # What it imports takes longer than to grade a file that was graded before.
                from evaluator.cli import remote

                return remote.evaluate_remotely(submission, raw, *service, tell)
            return evaluate(submission, Toolbox(machine), raw, tell, problem=problem)
    except UsageError:
        raise
    except Exception as error:
        fault = error if isinstance(error, InfrastructureError) else InternalError(error)
        return verdict_without_result(problem.id, submission.backend, fault.ruling())


def _reproduce(file: Path, submission: Submission, raw: bytes, verdict: Verdict) -> None:
    """Write the program that shows the fault, or say on stderr why there is none."""
    from evaluator.pipeline.reproduce import reproduce, why_none

    why = why_none(verdict)
    if why is None:
        arguments.write_output(file, reproduce(submission, raw, verdict, Toolbox(MachineSettings.from_environment())))
    else:
        click.echo(f"assay: {file} is not written: {terminal.printable(why)}.", err=True)


def _exit_code(verdict: Verdict) -> int:
    if verdict.status is Status.INTERNAL_ERROR:
        return EXIT_INTERNAL
    return EXIT_PASSED if verdict.status is Status.PASSED else EXIT_OTHER
