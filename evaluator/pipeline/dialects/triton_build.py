"""The build of a Triton submission: its Python recorded, the kernels that it launches there as one program."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from common.contract import Diagnostic, Phase, Severity, Status
from evaluator.backends.session import Program
from evaluator.errors import Ruling
from evaluator.pipeline.dialects.recording import lifting_of, needs_of, public_points
from evaluator.pipeline.progress import Progress, ProgressCallback, unheard
from evaluator.pipeline.stage_values import CompiledSource, Ending, PlannedProgram, ScreenedSource
from evaluator.pipeline.toolbox import Toolbox
from evaluator.stages.compile.nvcc import Compiled, assemble_source
from evaluator.stages.launch.planning import plan_recorded
from evaluator.stages.launch.recorded_plans import Point, RecordedPlans
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.kernelbench.python_syntax import COMPILER, NotPythonError, check_syntax
from evaluator.stages.lift.triton.entry_points import ENTRIES, expected_python, python_entry
from evaluator.stages.lift.triton.inside.record import SOURCE
from evaluator.stages.lift.triton.triton_package import find_triton

_PREFIX: Final = f"{SOURCE}:"


def build_triton(
    screened: ScreenedSource, toolbox: Toolbox, points: Sequence[Point], progress: ProgressCallback = unheard
) -> PlannedProgram | Ending:
    """Record at `points`, assemble, and plan. Raises InfrastructureError."""
    submitted, source = screened.submitted, screened.source
    if submitted.plan is not None:
        return Ending(screened, _refused("The submission has a launch plan, and Python that launches.", None))
    entry = python_entry(source)
    if entry is None:
        try:
            check_syntax(source, toolbox.sandbox)
        except NotPythonError as refusal:
            return unlifted_python(screened, refusal.ruling, COMPILER)
        hint = f"Write `{expected_python(submitted.problem)}` and launch the kernels in it; what it is called by is "
        hint += f"its name ({', '.join(f'`{name}`' for name in ENTRIES)})."
        return Ending(screened, _refused("There is no function `run` at the top level of the Python.", hint))
    # Slow to import, and needed for Triton alone.
    from evaluator.stages.lift.triton.triton_lifting import lifted_python

    progress(Progress(Phase.COMPILE))
    started_s = time.monotonic()
    cache = toolbox.cache.of_caller(toolbox.caller) if toolbox.caller else toolbox.cache
    toolchain, settings, arch = toolbox.toolchain, submitted.settings, submitted.arch
    try:
        triton = find_triton()
        lifted = lifted_python(
            source,
            entry,
            submitted.problem,
            arch,
            settings,
            triton,
            toolchain,
            toolbox.sandbox,
            cache,
            [sizes for sizes, _ in public_points(submitted)],
        )
        ptx = lifted.compile_for(points)
    except LiftRefusedError as refusal:
        compiler = f"triton {find_triton().version}" if refusal.ruling.status is Status.COMPILE_ERROR else ""
        return unlifted_python(screened, refusal.ruling, compiler, time.monotonic() - started_s)
    if not lifted.entries:
        nothing = _refused("The Python launches nothing.", "Launch a kernel that writes the outputs, at every size.")
        return Ending(screened, nothing)
    lifting_s = 0.0 if lifted.cached else time.monotonic() - started_s + lifted.others_s
    compiled = assemble_source(
        source, ptx, lifted.entries, f"triton {triton.version}", settings, arch, toolchain, toolbox.sandbox, cache,
        lifting_s,
    )  # fmt: skip
    compiled = replace(compiled, cached=compiled.cached and lifted.cached)
    compiled_source = CompiledSource(screened, compiled)
    if compiled.ruling or compiled.program is None:
        return Ending(compiled_source, compiled.ruling)
    progress(Progress(Phase.LIFT))
    planned = plan_recorded(
        submitted.problem,
        compiled.program,
        lifted.plans_at,
        f"recorded from {lifted.binding.said}",
        source,
        *needs_of(compiled),
    )
    if planned.checked_plan is None:
        return Ending(compiled_source, planned.ruling)
    assert planned.checked_plan.recorded is not None
    planned.checked_plan.recorded.record(points)
    planned.checked_plan.recorded.rebuild = lambda more: _rebuilt(screened, toolbox, more)
    lifting = lifting_of(entry.name, lifted.binding.said, planned.checked_plan, lifting_s)
    return PlannedProgram(compiled_source, compiled.program, planned.checked_plan, lifting)


def with_more_kernels(planned: PlannedProgram, toolbox: Toolbox, points: Sequence[Point]) -> PlannedProgram | Ending:
    """The same submission with the kernels that `points` need beside its own. Raises InfrastructureError."""
    screened, before = planned.compiled_source.screened, planned.compiled
    built = build_triton(screened, toolbox, [*public_points(screened.submitted), *points])
    if isinstance(built, Ending):
        return built
    compiled = replace(built.compiled, cached=before.cached, duration_s=before.duration_s)
    return replace(
        built,
        compiled_source=replace(built.compiled_source, compiled=compiled),
        lifting=planned.lifting,
    )


def _rebuilt(
    screened: ScreenedSource, toolbox: Toolbox, points: Sequence[Point]
) -> tuple[Program, RecordedPlans] | Ruling:
    built = build_triton(screened, toolbox, [*public_points(screened.submitted), *points])
    if isinstance(built, PlannedProgram):
        assert built.checked_plan.recorded is not None
        return built.program, built.checked_plan.recorded
    assert built.ruling is not None
    return built.ruling


def unlifted_python(screened: ScreenedSource, ruling: Ruling, compiler: str, duration_s: float = 0.0) -> Ending:
    """What `compiler`, Triton or Python itself, does not compile, reported like any compile error."""
    if ruling.status is not Status.COMPILE_ERROR:
        return Ending(screened, ruling)
    ruling = replace(ruling, phase=Phase.COMPILE)
    place, _, said = ruling.message.removeprefix(_PREFIX).partition(": ")
    known = ruling.message.startswith(_PREFIX) and place.isdigit()
    error = Diagnostic(
        file=SOURCE if known else None,
        line=int(place) if known else None,
        column=None,
        severity=Severity.ERROR,
        code=None,
        text=said if known else ruling.message,
    )
    arch = screened.submitted.arch
    compiled = Compiled(None, ruling, arch, (), compiler, duration_s, diagnostics=(error,))
    return Ending(CompiledSource(screened, compiled), ruling)


def _refused(message: str, hint: str | None) -> Ruling:
    return Ruling(Status.INVALID_SUBMISSION, Phase.LIFT, message, hint)
