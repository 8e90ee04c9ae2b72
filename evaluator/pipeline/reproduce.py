"""From a verdict that tells of a smallest failing run to the stand-alone program that shows it."""

from common.contract import Smallest, Status, Submission, Verdict
from evaluator.errors import UsageError
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.catalogue import find_problem
from evaluator.stages.compile.nvcc import compile_source
from evaluator.stages.launch.planning import plan_launches
from evaluator.stages.screen.cleaning import clean
from evaluator.stages.verify.reproduction import ReproductionInput, reproduction


def why_none(verdict: Verdict) -> str | None:
    """Why no program can be made from this verdict, in words; None where one can."""
    if _smallest(verdict) is not None:
        return None
    if verdict.status is Status.PASSED:
        return "the kernel passed, so there is no fault to show"
    if verdict.correctness is None:
        return f"nothing was run: the verdict is {verdict.status} in phase {verdict.phase}"
    said = [warning for warning in verdict.correctness.warnings if warning.startswith("not shrunk: ")]
    return said[-1].removeprefix("not shrunk: ") if said else "no smallest failing run was looked for (--shrink)"


def reproduce(submission: Submission, raw: bytes, verdict: Verdict, toolbox: Toolbox) -> str:
    """The program's text. `raw`: the source's own bytes. What was compiled here is compiled once.

    Raises UsageError where no such program can be written, InfrastructureError for our own failures.
    """
    smallest, problem, settings = _smallest(verdict), find_problem(submission.problem), submission.settings
    if smallest is None:
        raise UsageError(f"No program can show the fault: {why_none(verdict)}.")
    source = clean(raw).source
    arch = verdict.compile.arch if verdict.compile and verdict.compile.arch else "sm_80"
    compiled = compile_source(source, settings, arch, toolbox.toolchain, toolbox.sandbox, toolbox.cache)
    if compiled.program is None:
        raise UsageError("The source does not compile here as it did where it was graded.")
    shared = {kernel.kernel: kernel.shared_bytes for kernel in compiled.kernels}
    planned = plan_launches(problem, compiled.program, submission.plan, source, shared)
    if planned.checked_plan is None:
        raise UsageError("The launch plan does not fit here as it did where it was graded.")
    return reproduction(
        ReproductionInput(source, planned.checked_plan, compiled.program.entries, settings.flags, smallest)
    )


def _smallest(verdict: Verdict) -> Smallest | None:
    return verdict.correctness.smallest if verdict.correctness else None
