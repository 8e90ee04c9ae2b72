"""The half of an evaluation that needs no device: from a source as it came in to a program with a fitting plan."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from common.contract import Dialect, Phase, Screening, Status
from evaluator.errors import Ruling
from evaluator.pipeline.dialects.recording import lifting_of, needs_of, public_points
from evaluator.pipeline.dialects.wrong_dialect import cuda_for_python, python_for_cpp
from evaluator.pipeline.progress import Progress, ProgressCallback, unheard
from evaluator.pipeline.stage_values import CompiledSource, Ending, PlannedProgram, ScreenedSource, SubmittedSource
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.problem import Problem
from evaluator.seed import Seed
from evaluator.stages.compile.nvcc import Compiled, compile_source
from evaluator.stages.launch.planning import plan_launches, plan_recorded
from evaluator.stages.launch.recorded_plans import Point
from evaluator.stages.lift.dialects import (
    called_libraries,
    dialect_of,
    entry_function,
    is_extension,
    is_triton,
    is_triton_solution,
)
from evaluator.stages.screen.cleaning import clean
from evaluator.stages.screen.python_text import screen_python
from evaluator.stages.screen.screening import DEVICE_TIER, LIFTED, screen
from evaluator.stages.verify.trials import plan_trials

# What lifts is slow to import, and a kernel with a plan needs nothing of it: each import stands where it is needed.
if TYPE_CHECKING:
    from evaluator.stages.lift.extension.headers import HeaderNotCoveredError
    from evaluator.stages.lift.lifting import HostCode


def build(
    submitted: SubmittedSource,
    toolbox: Toolbox,
    progress: ProgressCallback = unheard,
    ahead: Callable[[], Sequence[Point]] = tuple,
) -> PlannedProgram | Ending:
    """Clean, screen, compile, lift and plan; what was compiled before comes from the cache.

    `ahead` gives sizes and scalars that will be asked for, where they are known: Triton compiles for them as well.
    Raises InfrastructureError.
    """
    progress(Progress(Phase.SCREEN))
    solution_in_triton = _is_solution_in_triton(submitted)
    python = submitted.dialect == "triton" or (submitted.dialect is None and _looks_like_triton(submitted))
    python = python or solution_in_triton
    cleaned = clean(submitted.raw, python)
    if cleaned.ruling:
        return Ending(submitted, cleaned.ruling)
    if python:
        screening = screen_python(cleaned.source, cleaned.changes)
        dialect_here: Dialect = "kernelbench" if solution_in_triton else "triton"
        known = ScreenedSource(submitted, cleaned.source, screening, dialect_here)
        if wrong := cuda_for_python(cleaned.source, dialect_here):
            return _not_python(known, wrong)
        from evaluator.pipeline.dialects.triton_build import build_triton

        return build_triton(known, toolbox, [*public_points(submitted), *ahead()], progress)
    dialect: Dialect = submitted.dialect or (dialect_of(cleaned.source) if submitted.plan is None else "cuda")
    unscreened = ScreenedSource(submitted, cleaned.source, Screening(changes=cleaned.changes), dialect)
    if wrong := python_for_cpp(cleaned.source, dialect):
        return Ending(unscreened, wrong)
    if dialect == "kernelbench" and (wrong := cuda_for_python(cleaned.source, dialect)):
        return _not_python(unscreened, wrong)
    # What is screened is C++, and a solution in Python has it in texts.
    solution = _solution_code(unscreened, toolbox) if dialect == "kernelbench" else None
    if isinstance(solution, Ruling):
        return _not_python(unscreened, solution)
    text = solution.text if solution else cleaned.source
    found = screen(text, cleaned.changes, DEVICE_TIER if dialect == "cuda" else LIFTED)
    screened = replace(unscreened, screening=found.screening)
    if found.ruling:
        return Ending(screened, found.ruling)
    code = None if dialect == "cuda" else _host_code(screened, solution)
    if isinstance(code, Ruling):
        return Ending(screened, code)

    progress(Progress(Phase.COMPILE))
    settings, arch = submitted.settings, submitted.arch
    cache = toolbox.cache.of_caller(toolbox.caller) if toolbox.caller else toolbox.cache
    beside = code.for_kernels if code else None
    compiled = compile_source(cleaned.source, settings, arch, toolbox.toolchain, toolbox.sandbox, cache, beside)
    compiled_source = CompiledSource(screened, compiled)
    if compiled.ruling or compiled.program is None:
        if beside and dialect != "solve" and (unknown := _not_covered(compiled)):
            return Ending(screened, unknown)
        return Ending(compiled_source, compiled.ruling)
    if code is not None:
        return _lifted(compiled_source, code, toolbox, progress)

    progress(Progress(Phase.LAUNCH))
    shared_bytes, registers = needs_of(compiled)
    planned = plan_launches(
        submitted.problem, compiled.program, submitted.plan, cleaned.source, shared_bytes, registers
    )
    if planned.checked_plan is None:
        return Ending(compiled_source, planned.ruling)
    return PlannedProgram(compiled_source, compiled.program, planned.checked_plan)


def _looks_like_triton(submitted: SubmittedSource) -> bool:
    return submitted.plan is None and is_triton(submitted.raw.decode(errors="replace"))


def _is_solution_in_triton(submitted: SubmittedSource) -> bool:
    if submitted.plan is not None or submitted.dialect not in (None, "kernelbench"):
        return False
    return is_triton_solution(submitted.raw.decode(errors="replace"))


def _not_python(screened: ScreenedSource, ruling: Ruling) -> Ending:
    """What Python does not compile, reported like any compile error."""
    from evaluator.pipeline.dialects.triton_build import unlifted_python
    from evaluator.stages.lift.kernelbench.python_syntax import COMPILER

    return unlifted_python(screened, ruling, COMPILER)


def _solution_code(screened: ScreenedSource, toolbox: Toolbox) -> "HostCode | Ruling":
    """The host code of a Python text with ModelNew, or why there is none."""
    from evaluator.stages.lift.binding import LiftRefusedError
    from evaluator.stages.lift.extension.headers import HeaderNotCoveredError
    from evaluator.stages.lift.kernelbench.solution import Solution

    submitted = screened.submitted
    try:
        return Solution(
            screened.source, submitted.problem, submitted.settings, toolbox.sandbox, submitted.arch
        ).host_code()
    except LiftRefusedError as refusal:
        return refusal.ruling
    except HeaderNotCoveredError as header:
        return _header_not_covered(header)


def _host_code(screened: ScreenedSource, solution: "HostCode | None") -> "HostCode | Ruling":
    """The host code of a source, or why there is none in its dialect."""
    source, dialect, problem = screened.source, screened.dialect, screened.submitted.problem
    if screened.submitted.plan is not None or "// assay:" in source:
        return Ruling(
            Status.INVALID_SUBMISSION,
            Phase.LIFT,
            f"The submission has a launch plan, and host code that launches (dialect {dialect}).",
            "Keep one of the two; with a plan, the dialect is cuda.",
        )
    if libraries := called_libraries(solution.text if solution else source, dialect):
        return Ruling(
            Status.UNSUPPORTED,
            Phase.LIFT,
            f"The host code uses {' and '.join(libraries)}, whose kernels are not the submission's own.",
            "Write the kernels in this file. It was not judged, so there is no reward.",
        )
    if solution is not None:
        return solution
    return _entry_code(source, problem) if dialect == "solve" else _extension_code(source, problem)


def _entry_code(source: str, problem: Problem) -> "HostCode | Ruling":
    from evaluator.stages.lift.binding import expected
    from evaluator.stages.lift.lifting import code_of_entry

    entry = entry_function(source)
    if entry is not None:
        return code_of_entry(source, entry)
    return Ruling(
        Status.INVALID_SUBMISSION,
        Phase.LIFT,
        "There is no function `solve` or `solution` in the source, which the dialect solve calls.",
        f"Write `{expected(problem)}` and launch the kernels in it.",
    )


def _extension_code(source: str, problem: Problem) -> "HostCode | Ruling":
    from evaluator.stages.lift.extension.headers import HeaderNotCoveredError
    from evaluator.stages.lift.lifting import code_of_extension

    if not is_extension(source):
        from evaluator.stages.lift.extension.binding import expected_function

        return Ruling(
            Status.INVALID_SUBMISSION,
            Phase.LIFT,
            "There is no PYBIND11_MODULE in the source, from which the dialect torch-extension learns what to call.",
            f"Write `{expected_function(problem)}` and "
            'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }.',
        )
    try:
        return code_of_extension(source)
    except HeaderNotCoveredError as header:
        return _header_not_covered(header)


def _header_not_covered(header: "HeaderNotCoveredError") -> Ruling:
    return Ruling(
        Status.UNSUPPORTED,
        Phase.LIFT,
        f"kernel.cu:{header.line}: nothing stands for PyTorch's header {header.path}.",
        "docs/lifting.md lists those for which something does. It was not judged, so there is no reward.",
    )


def _not_covered(compiled: Compiled) -> Ruling | None:
    """The ruling on host code that uses a name which PyTorch's headers may have; None where there is none."""
    from evaluator.stages.lift.extension.headers import unknown_name

    name = unknown_name(compiled.diagnostics)
    if not name:
        return None
    return Ruling(
        Status.UNSUPPORTED,
        Phase.LIFT,
        f"The host code uses {name}, for which nothing stands in our headers: PyTorch's may have it.",
        "docs/lifting.md lists what can be called. It was not judged, so there is no reward.",
    )


def _lifted(
    compiled_source: CompiledSource, code: "HostCode", toolbox: Toolbox, progress: ProgressCallback
) -> PlannedProgram | Ending:
    """What host code launches, recorded at the problem's typical sizes, and anew wherever it is judged."""
    from evaluator.stages.lift.lifting import Lifted, lift

    progress(Progress(Phase.LIFT))
    screened, compiled = compiled_source.screened, compiled_source.compiled
    submitted, program = screened.submitted, compiled.program
    assert program is not None
    cache = toolbox.cache.of_caller(toolbox.caller) if toolbox.caller else toolbox.cache
    lifted = lift(
        code,
        submitted.problem,
        program,
        compiled.kernels,
        submitted.settings,
        toolbox.toolchain,
        toolbox.sandbox,
        cache,
        [sizes for sizes, _ in public_points(submitted)],
        compiled.host_object,
    )
    if not isinstance(lifted, Lifted):
        # A verdict whose host code did not compile cannot say that the compiler took all of it.
        failed = lifted.status is Status.COMPILE_ERROR
        return Ending(screened if failed else compiled_source, lifted)
    planned = plan_recorded(
        submitted.problem,
        program,
        lifted.plans_at,
        f"recorded from {lifted.bound.said}",
        screened.source,
        *needs_of(compiled),
    )
    if planned.checked_plan is None:
        return Ending(compiled_source, planned.ruling)
    return PlannedProgram(
        compiled_source,
        program,
        planned.checked_plan,
        lifting_of(
            lifted.called,
            lifted.bound.said,
            planned.checked_plan,
            0.0 if lifted.built.cached else lifted.built.duration_s,
        ),
    )


def known_points(submitted: SubmittedSource, secret: bytes, timed_too: bool) -> list[Point]:
    """All sizes and scalars that a judge with this seed is known to ask for."""
    settings, problem = submitted.settings, submitted.problem
    trials = plan_trials(problem, settings, Seed(secret).generator(), timed_too=timed_too)
    points: list[Point] = [(trial.sizes, trial.scalars) for trial in trials]
    return [*points, *((trial.sizes, {}) for trial in trials if trial.scalars), *public_points(submitted)]


def record_ahead(
    planned: PlannedProgram, toolbox: Toolbox, secret: bytes, timed_too: bool
) -> PlannedProgram | Ending:
    """Record host code at all sizes that a judge with this seed is known to ask for. Raises InfrastructureError.

    Together they cost less; and a judge in another process can record none itself. Of Triton the program has then the
    kernels that these sizes need.
    """
    recorded, screened = planned.checked_plan.recorded, planned.compiled_source.screened
    if recorded is None:
        return planned
    points = known_points(screened.submitted, secret, timed_too)
    if screened.dialect == "triton" or is_triton_solution(screened.source):
        if recorded.knows(points):
            return planned
        from evaluator.pipeline.dialects.triton_build import with_more_kernels

        return with_more_kernels(planned, toolbox, points)
    recorded.record(points)
    return planned
