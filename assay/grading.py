"""Grading in this process, without a service."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from common.contract import (
    Dialect,
    Reference,
    Settings,
    Status,
    Verdict,
    foreign_problem_id,
    form_of,
    name_of_file,
)
from common.launch_plan import LaunchPlan

if TYPE_CHECKING:
    from evaluator.foreign.sources import ForeignSource
    from evaluator.pipeline.toolbox import Toolbox
    from evaluator.problems.problem import Problem
    from evaluator.settings import MachineSettings


def grade(
    source: str,
    problem: str | Path | Reference,
    backend: Literal["auto", "gpu", "sim"] = "auto",
    *,
    plan: LaunchPlan | None = None,
    dialect: Dialect | None = None,
    settings: Settings | None = None,
    progress: Callable[[str], None] | None = None,
) -> Verdict:
    r"""Grade one CUDA kernel on this machine and return its verdict.

    `source` is the CUDA text itself, `problem` the id of what it is to compute (`assay problems` lists them), or a
    problem of others (it needs PyTorch): the path of a file that states one, or a `Reference` with its text or an
    expression. The file is carried out in a sandbox.
    `backend` says where to run: `sim`, `gpu`, or `auto`, which takes a GPU where one can be used. `plan` says how the
    kernels are launched; without one it is read from the source's `// assay:` lines, or inferred. `dialect` is
    `solve` for a text whose own `solve()` or `solution()` launches; None finds that out. `progress` gets the phase
    under way; an exception of its own ends the grading and is raised here. Environment variables `ASSAY_…`
    count as they do for the command `assay`.

        >>> from assay import Settings, grade
        >>> add = "__global__ void add(const float* a, const float* b, float* c, int n)"
        >>> body = "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) c[i] = a[i] + b[i]; }"
        >>> verdict = grade(add + body, "vector_add", settings=Settings(reward="gated", estimate_for=None))
        >>> verdict.status.value, verdict.correctness.passed, verdict.reward.name.value
        ('passed', True, 'gated')

    Compilers and simulated kernels run in sandboxes and in processes of their own, so nothing in `source` runs in
    this one. Several threads may grade at a time; a process that forks while threads run grades once before, since
    a child never sees the end of an import that was under way. For thousands of kernels a service (`assay serve`,
    `Client`) uses all cores, and gives a repeat its verdict at once.

    Raises UsageError for a problem, a GPU or a size that does not exist and for a file that can be no problem,
    EvaluatorError where the evaluator itself fails (there is no compiler, the disk is full), and ValueError for an
    argument that cannot be (a UsageError too). Whatever is wrong with the kernel is the verdict:

        >>> grade("__global__ void f(float* c) { c[0] = }", "vector_add").status.value
        'compile_error'
        >>> grade(add + body, "vectoradd")
        Traceback (most recent call last):
        evaluator.errors.UnknownProblemError: there is no problem 'vectoradd'
    """
    if progress is not None and not callable(progress):
        raise ValueError(f"progress is {progress!r}, which cannot be called")
    # The evaluator brings numpy and scipy: only who grades here pays for them.
    from evaluator.pipeline.pipeline import evaluate
    from evaluator.settings import MachineSettings
    from evaluator.validation_messages import checked_submission

    chosen = settings or Settings()
    toolbox = _toolbox(MachineSettings.from_environment(), os.getpid())
    raised: list[Exception] = []

    def show(event: object) -> None:
        try:
            if progress is not None:
                progress(str(event))
        except Exception as error:
            raised.append(error)
            raise

    with ExitStack() as while_used:
        stated = None
        if isinstance(problem, Path | Reference):
            stated = _stated(problem, toolbox, chosen, backend, while_used)
        named = stated.id if stated is not None else problem
        submission = checked_submission(
            {
                "problem": named,
                "source": source,
                "dialect": dialect,
                "plan": plan,
                "backend": backend,
                "settings": chosen,
            }
        )
        verdict = evaluate(submission, toolbox, progress=show, problem=stated)
    if raised:
        # The evaluator took it for a failure of its own, and a caller that retries those would retry it without end.
        raise raised[0]
    if verdict.status is Status.INTERNAL_ERROR:
        from common.client import EvaluatorError

        raise EvaluatorError(verdict)
    return verdict


def _stated(
    problem: Path | Reference,
    toolbox: "Toolbox",
    settings: Settings,
    backend: Literal["auto", "gpu", "sim"],
    while_used: ExitStack,
) -> "Problem":
    """The problem that a file or a reference states. Raises UsageError, EvaluatorError."""
    from common.client import EvaluatorError
    from evaluator.errors import InfrastructureError
    from evaluator.foreign.loading import foreign_problem
    from evaluator.pipeline.without_result import verdict_without_result

    source = _source_of(problem)
    where = toolbox.backend_for(backend)
    stated = foreign_problem(
        source.text,
        source.name,
        toolbox.sandbox,
        toolbox.cache,
        settings.other_sizes,
        source.problem_id,
        backend=where,
    )
    try:
        return while_used.enter_context(stated)
    except InfrastructureError as fault:
        raise EvaluatorError(verdict_without_result(source.problem_id, where, fault.ruling())) from fault


def _source_of(problem: Path | Reference) -> "ForeignSource":
    """What stands for the problem. Raises UsageError."""
    from evaluator.errors import UsageError
    from evaluator.foreign.sources import ForeignSource, source_of, trace_text

    if isinstance(problem, Reference):
        return source_of(problem)
    try:
        text = problem.read_bytes()
    except OSError as error:
        raise UsageError(f"{problem} cannot be read: {error.strerror}.") from error
    if form_of(text) == "trace":
        text = trace_text(problem)
    name = name_of_file(problem)
    return ForeignSource(foreign_problem_id(name, text), name, text)


@lru_cache(maxsize=4)
def _toolbox(machine: "MachineSettings", process_id: int) -> "Toolbox":
    """The tools of this process for these settings; a forked process makes its own."""
    from evaluator.pipeline.toolbox import Toolbox

    return Toolbox(machine)
