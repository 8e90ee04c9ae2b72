"""The command `assay grade`: one kernel in, one verdict out."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import click

from common.contract import (
    BaselineName,
    Dialect,
    GpuName,
    HostTier,
    OtherSizes,
    Phase,
    RewardName,
    Status,
    Submission,
    Verdict,
)
from evaluator.cli import arguments
from evaluator.cli.chosen_problem import (
    chosen_problem,
    kept_at_service,
    reference_given,
    refuse_beside_problem,
    refuse_beside_reference,
    refuse_other_name,
)
from evaluator.cli.console import (
    EXIT_INTERNAL,
    EXIT_OTHER,
    EXIT_PASSED,
    importing,
    keep_freed_memory,
    printing,
)
from evaluator.errors import InfrastructureError, InternalError, UsageError
from evaluator.problems.problem import Problem
from evaluator.settings import MachineSettings

if TYPE_CHECKING:
    from evaluator.pipeline.toolbox import Toolbox

_SHRINK_S = 10.0


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--problem",
    "problem_id",
    help="What the kernel computes; else the first line of FILE says it: `// problem: ID`. Also FORM:PATH, with "
    "kernelbench, leetgpu, tensara or trace: a problem of others in a file.",
)
@click.option(
    "--reference",
    type=click.Path(path_type=Path),
    help="A file of others (KernelBench, LeetGPU, Tensara, FlashInfer Trace) that says what the kernel computes, in "
    "the place of --problem (needs PyTorch).",
)
@click.option("--torch", "expression", metavar="TEXT", help='The same as an expression: --torch "torch.add(a, b)".')
@click.option("--shape", "shapes", multiple=True, metavar="NAME=EXTENTS", help="Of a tensor of --torch: a=32x64.")
@click.option(
    "--other-sizes",
    type=click.Choice(get_args(OtherSizes)),
    help="Whether being wrong at sizes that --reference or --torch does not state is told (the default) or fails.",
)
@click.option(
    "--baseline",
    type=click.Choice(get_args(BaselineName)),
    help="What the speed for --reference or --torch is relative to, on a GPU.  [default: eager]",
)
@click.option(
    "--baselines", "all_baselines", is_flag=True, help="Measure the others too; to compile takes a minute or two."
)
@click.option(
    "--dialect",
    type=click.Choice(get_args(Dialect)),
    help="cuda: kernels with a launch plan. solve: host code that launches, as on LeetGPU and Tensara. "
    "torch-extension: PYBIND11_MODULE. kernelbench: ModelNew in Python. triton: Python with Triton kernels.  "
    "[default: what FILE looks like]",
)
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
    "--timing-precision",
    type=float,
    default=0.01,
    show_default=True,
    metavar="SHARE",
    help="On a GPU, launch until the speedup is known to this share of it.",
)
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
@arguments.verification_options
@click.option(
    "--host-tier",
    type=click.Choice(get_args(HostTier)),
    default="off",
    show_default=True,
    help="Run host code that cannot be recorded, in a sandbox that has the GPU: never, where it must, always.",
)
@click.option(
    "--min-coverage",
    type=float,
    metavar="SHARE",
    help="There, the least share of the time in the file's own kernels.",
)
@click.option("--profile", is_flag=True, help="On a GPU, read its counters too (Nsight Compute).")
@click.option("--schedule", type=int, metavar="N", help="The one schedule to try, such as a verdict names.")
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
    reference: Path | None,
    expression: str | None,
    shapes: tuple[str, ...],
    other_sizes: OtherSizes | None,
    baseline: BaselineName | None,
    all_baselines: bool,
    dialect: Dialect | None,
    plan_file: Path | None,
    backend: Literal["auto", "gpu", "sim"],
    sizes: tuple[str, ...],
    arch: str | None,
    flags: tuple[str, ...],
    reward: str,
    target_speedup: float,
    timing_precision: float,
    timeout_s: float,
    compile_timeout_s: float,
    estimate_for: str,
    verification: str,
    quick: bool,
    host_tier: HostTier,
    min_coverage: float | None,
    profile: bool,
    schedule: int | None,
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
    raw = arguments.read_source(file)
    foreign = reference_given(problem_id, reference, expression, shapes)
    kept = kept_at_service(problem_id, raw) if foreign is None and server is not None else None
    stated = kept is not None or foreign is not None
    if not stated and other_sizes is not None:
        raise UsageError("--other-sizes is of a problem that states fixed sizes.", "Add --reference or --torch.")
    if not stated and (baseline is not None or all_baselines):
        raise UsageError("--baseline is of a problem that a file states.", "Add --reference or --torch.")
    if stated:
        others = {"--size": bool(sizes), "--shrink": shrink or shrink_s is not None}
        option = "a problem of others" if foreign is None else foreign.option
        refuse_beside_reference(option, {**others, "--repro": repro_name is not None})
    report_file = arguments.output_path(report_name, file) if report_name is not None else None
    receipt_file = arguments.output_path(receipt_name, file, "receipt") if receipt_name is not None else None
    repro_file = arguments.output_path(repro_name, file, "repro") if repro_name is not None else None
    settings = arguments.submission_settings(
        {
            "other_sizes": other_sizes or "reported",
            "baseline": baseline or "eager",
            "baselines": get_args(BaselineName) if all_baselines else (),
            "sizes": arguments.sizes_of(sizes),
            "arch": arch,
            "flags": flags,
            "reward": reward,
            "target_speedup": target_speedup,
            "timing_precision": timing_precision,
            "run_timeout_s": timeout_s,
            "compile_timeout_s": compile_timeout_s,
            "estimate_for": None if estimate_for == "none" else estimate_for,
            "verification": "quick" if quick else verification,
            "host_tier": host_tier,
            "min_coverage": min_coverage,
            "profile": profile,
            "schedule": schedule,
            "shrink_s": shrink_s if shrink_s is not None else _SHRINK_S * (shrink or repro_name is not None),
        }
    )
    plan = arguments.plan_in(plan_file) if plan_file else None
    source = raw.decode(errors="replace")
    how = {"dialect": dialect, "plan": plan, "backend": backend, "settings": settings}
    machine = MachineSettings.from_environment()
    service = (server, key) if server is not None else None
    problem: Problem | None = None
    if service is not None and stated:
        # The service reads it, so that nothing of it runs here.
        if foreign is not None:
            refuse_beside_problem(foreign, problem_id)
            refuse_other_name(foreign, arguments.named_problem(raw), file)
            which: dict[str, object] = {"reference": foreign.as_sent()}
        else:
            which = {"problem": arguments.problem_of(problem_id, raw, file)}
        submission = Submission.model_validate({"source": source, **how, **which})
        verdict = evaluate_anywhere(submission, None, machine, raw, quiet=as_json, service=service)
        if verdict.phase is Phase.PROBLEM and verdict.status is Status.UNSUPPORTED:
            raise UsageError(verdict.message, verdict.hint)
    else:
        toolbox = _toolbox(machine) if foreign is not None else None
        with chosen_problem(problem_id, foreign, raw, file, toolbox, other_sizes or "reported", backend) as problem:
            submission = Submission.model_validate(
                {
                    "problem": problem.id,
                    "source": source,
                    "dialect": dialect,
                    "plan": plan,
                    "backend": backend,
                    "settings": settings,
                }
            )
            verdict = evaluate_anywhere(
                submission, problem, machine, raw, quiet=as_json, service=service, toolbox=toolbox
            )
    with printing():
        if as_json:
            click.echo(verdict.model_dump_json(indent=2))
        else:
            # What draws on a terminal is slow to import.
            from evaluator.cli.screen import Screen
            from evaluator.report import terminal

            Screen().print(terminal.verdict_card(verdict, source, str(file)))
    if receipt_file:
        arguments.write_output(receipt_file, verdict.model_dump_json(indent=2) + "\n")
        if not as_json:
            _print_place("receipt", receipt_file)
    if repro_file and problem is not None:
        _reproduce(repro_file, submission, problem, raw, verdict)
    if report_file:
        from evaluator.report import html

        arguments.write_output(
            report_file, html.render(verdict, source, html.STANDARD_INPUT if str(file) == "-" else file.name)
        )
        if not as_json:
            _print_place("report", report_file)
    sys.exit(_exit_code(verdict))


def evaluate_anywhere(
    submission: Submission,
    problem: Problem | None,
    machine: MachineSettings,
    raw: bytes,
    quiet: bool,
    service: tuple[str, str | None] | None = None,
    toolbox: "Toolbox | None" = None,
) -> Verdict:
    """Grade here, or at a service (its address and key), with a line of progress on a terminal's stderr.

    `problem`: None where only the service has it.

    A failure of this machine is a verdict too (`internal_error`). Raises UsageError, and InfrastructureError where a
    service gives no verdict: nothing was tried here, so there is nothing that a verdict could tell.
    """
    with _progress_line(quiet) as tell:
        if service is not None:
            # What it imports takes longer than to grade a file that was graded before.
            from evaluator.cli import remote

            return remote.evaluate_remotely(submission, raw, *service, tell)
        keep_freed_memory()
        toolbox = toolbox or _toolbox(machine)
        if submission.backend == "sim" or submission.settings.rehearse:
            toolbox.prepare_simulator()
        # Half of the time of a start: not for wrong usage, and not where a service grades.
        with importing():
            from evaluator.pipeline.pipeline import evaluate
            from evaluator.pipeline.without_result import verdict_without_result

        try:
            return evaluate(submission, toolbox, raw, tell, problem=problem)
        except UsageError:
            raise
        except Exception as error:
            fault = error if isinstance(error, InfrastructureError) else InternalError(error)
            return verdict_without_result(submission.problem, submission.backend, fault.ruling())


@contextmanager
def _progress_line(quiet: bool) -> Iterator[Callable[[object], None]]:
    """What says on a terminal's stderr how far the grading is."""
    if quiet:
        yield lambda now: None
        return
    from rich.console import Console

    console = Console(stderr=True)
    console.quiet = not console.is_terminal
    with console.status("grading") as status:
        yield lambda now: status.update(f"grading: {now}")


def _print_place(what: str, file: Path) -> None:
    from evaluator.report.terminal import printable

    with printing():
        click.echo(f"{what}: {printable(str(file))}")


def _toolbox(machine: MachineSettings) -> "Toolbox":
    """The tools of this machine. What they import takes half of the time of a start."""
    with importing():
        from evaluator.pipeline.toolbox import Toolbox

    return Toolbox(machine)


def _reproduce(file: Path, submission: Submission, problem: Problem, raw: bytes, verdict: Verdict) -> None:
    """Write the program that shows the fault, or say on stderr why there is none: the verdict stands either way."""
    from evaluator.pipeline.reproduce import reproduce, why_none

    why = why_none(verdict)
    if why is None:
        toolbox = _toolbox(MachineSettings.from_environment())
        try:
            text = reproduce(submission, raw, verdict, toolbox, problem, file.name)
        except UsageError as error:
            why = " ".join(filter(None, (str(error), error.remedy))).rstrip(".")
        else:
            arguments.write_output(file, text)
    if why is not None:
        from evaluator.report.terminal import printable

        click.echo(f"assay: {file} is not written: {printable(why)}.", err=True)


def _exit_code(verdict: Verdict) -> int:
    if verdict.status is Status.INTERNAL_ERROR:
        return EXIT_INTERNAL
    return EXIT_PASSED if verdict.status is Status.PASSED else EXIT_OTHER
