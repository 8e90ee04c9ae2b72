"""The half of an evaluation that needs no device: from a source as it came in to a program with a fitting plan."""

from common.contract import Phase
from evaluator.pipeline.progress import Progress, ProgressCallback, unheard
from evaluator.pipeline.stage_values import CompiledSource, Ending, PlannedProgram, ScreenedSource, SubmittedSource
from evaluator.pipeline.toolbox import Toolbox
from evaluator.stages.compile.nvcc import compile_source
from evaluator.stages.launch.planning import plan_launches
from evaluator.stages.screen.cleaning import clean
from evaluator.stages.screen.screening import screen


def build(
    submitted: SubmittedSource, toolbox: Toolbox, progress: ProgressCallback = unheard
) -> PlannedProgram | Ending:
    """Clean, screen, compile and plan; what was compiled before comes from the cache. Raises InfrastructureError."""
    progress(Progress(Phase.SCREEN))
    cleaned = clean(submitted.raw)
    if cleaned.ruling:
        return Ending(submitted, cleaned.ruling)
    found = screen(cleaned.source, cleaned.changes)
    screened = ScreenedSource(submitted, cleaned.source, found.screening)
    if found.ruling:
        return Ending(screened, found.ruling)

    progress(Progress(Phase.COMPILE))
    settings, arch = submitted.settings, submitted.arch
    cache = toolbox.cache.of_caller(toolbox.caller) if toolbox.caller else toolbox.cache
    compiled = compile_source(cleaned.source, settings, arch, toolbox.toolchain, toolbox.sandbox, cache)
    compiled_source = CompiledSource(screened, compiled)
    if compiled.ruling or compiled.program is None:
        return Ending(compiled_source, compiled.ruling)

    progress(Progress(Phase.LAUNCH))
    shared_bytes = {kernel.kernel: kernel.shared_bytes for kernel in compiled.kernels}
    registers = {kernel.kernel: kernel.registers for kernel in compiled.kernels}
    planned = plan_launches(
        submitted.problem, compiled.program, submitted.plan, cleaned.source, shared_bytes, registers
    )
    if planned.checked_plan is None:
        return Ending(compiled_source, planned.ruling)
    return PlannedProgram(compiled_source, compiled.program, planned.checked_plan)
