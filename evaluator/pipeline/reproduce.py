"""From a verdict that tells of a smallest failing run to the stand-alone program that shows it."""

from common.contract import Smallest, Status, Submission, Verdict
from evaluator.errors import UsageError
from evaluator.pipeline.build import build
from evaluator.pipeline.stage_values import CompiledSource, Ending, SubmittedSource
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.catalogue import find_problem
from evaluator.problems.problem import Problem
from evaluator.stages.verify.reproduction import ReproductionInput, reproduction


def why_none(verdict: Verdict) -> str | None:
    """Why no program can be made from this verdict, in words; None where one can."""
    if verdict.compile and (verdict.compile.toolchain or "").startswith("triton"):
        return "its kernels are Triton's, and such a program is CUDA C++"
    if _smallest(verdict) is not None:
        return None
    if verdict.status is Status.PASSED:
        return "the kernel passed, so there is no fault to show"
    if verdict.correctness is None:
        return f"nothing was run: the verdict is {verdict.status} in phase {verdict.phase}"
    said = [warning for warning in verdict.correctness.warnings if warning.startswith("not shrunk: ")]
    return said[-1].removeprefix("not shrunk: ") if said else "no smallest failing run was looked for (--shrink)"


def reproduce(
    submission: Submission,
    raw: bytes,
    verdict: Verdict,
    toolbox: Toolbox,
    problem: Problem | None = None,
    file_name: str = "repro.cu",
) -> str:
    """The program's text. What was compiled here is compiled once.

    `raw`: the source's own bytes. `problem`: the submission's, where the caller has looked it up. `file_name`: of the
    file that the program will be in, for the commands in its text.

    Raises UsageError where no such program can be written, InfrastructureError for our own failures.
    """
    smallest, settings = _smallest(verdict), submission.settings
    if smallest is None or why_none(verdict) is not None:
        raise UsageError(f"No program can show the fault: {why_none(verdict)}.")
    arch = verdict.compile.arch if verdict.compile and verdict.compile.arch else "sm_80"
    problem = problem or find_problem(submission.problem)
    built = build(SubmittedSource(problem, raw, submission.plan, settings, arch), toolbox)
    if isinstance(built, Ending):
        if isinstance(built.reached, CompiledSource) and built.reached.compiled.program is not None:
            raise UsageError("The launch plan does not fit here as it did where it was graded.")
        raise UsageError("The source does not compile here as it did where it was graded.")
    source = built.compiled_source.screened.source
    return reproduction(
        ReproductionInput(source, built.checked_plan, built.program.entries, settings.flags, smallest, file_name)
    )


def _smallest(verdict: Verdict) -> Smallest | None:
    return verdict.correctness.smallest if verdict.correctness else None
