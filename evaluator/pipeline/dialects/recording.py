"""What is the same in every dialect that is recorded: at which sizes, what a plan needs of its kernels, and what the
verdict says of the recording.
"""

from common.contract import Lifting
from common.launch_plan import Copy, Fill, Launch
from evaluator.pipeline.stage_values import SubmittedSource
from evaluator.pipeline.timing import larger
from evaluator.stages.compile.nvcc import Compiled
from evaluator.stages.launch.checked_plan import CheckedPlan
from evaluator.stages.launch.recorded_plans import Point
from evaluator.stages.verify.trials import asked_sizes


def public_points(submitted: SubmittedSource) -> list[Point]:
    """Sizes at which a submission is judged whatever the seed; the typical ones first."""
    problem, sizes = submitted.problem, submitted.settings.sizes
    timed = asked_sizes(problem, sizes) if sizes else problem.timing_sizes
    return [(each, {}) for each in (*problem.example_sizes, problem.timing_sizes, timed, larger(timed))]


def needs_of(compiled: Compiled) -> tuple[dict[str, int], dict[str, int]]:
    """Static shared memory and registers of each kernel, by its demangled name."""
    shared_bytes = {kernel.kernel: kernel.shared_bytes for kernel in compiled.kernels}
    return shared_bytes, {kernel.kernel: kernel.registers for kernel in compiled.kernels}


def lifting_of(entry: str, binding: str, checked_plan: CheckedPlan, duration_s: float) -> Lifting:
    """What the verdict says of a recording."""
    steps = checked_plan.plan.steps
    return Lifting(
        entry=entry,
        binding=binding,
        launches=sum(isinstance(step, Launch) for step in steps),
        fills=sum(isinstance(step, Fill) for step in steps),
        copies=sum(isinstance(step, Copy) for step in steps),
        temporaries=len(checked_plan.plan.temporaries),
        duration_s=round(duration_s, 4),
    )
