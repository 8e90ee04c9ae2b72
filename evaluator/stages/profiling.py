"""The profile: what a program's kernels need and what that allows, from ptxas and from the run's own counts."""

from collections.abc import Mapping

from common.contract import Occupancy, Profile
from evaluator.backends.backend import KernelLaunch
from evaluator.backends.gpu.nsight import mean_reading
from evaluator.stages.compilation import Compiled
from evaluator.stages.counting import Counted
from evaluator.stages.launchable import Concrete, Launchable
from evaluator.stages.resources import occupancy


def profile(
    compiled: Compiled, launchable: Launchable, thread_instructions: int, facts: Mapping[str, int] | None
) -> Profile:
    """Occupancy of each launch at the problem's typical size, and what the backend counted."""
    concrete = launchable.at(launchable.problem.example_sizes[0])
    return Profile(
        occupancy=_occupancies(compiled, concrete) if isinstance(concrete, Concrete) else (),
        thread_instructions=thread_instructions or None,
        warp_shuffles=facts["shuffles"] > 0 if facts and "shuffles" in facts else None,
    )


def counters(counted: Counted) -> dict[str, object]:
    """What the GPU's profiler adds to a `Profile`, by field."""
    found: dict[str, object] = {"not_measured": counted.not_measured, "gpu_evidence": counted.evidence}
    means = mean_reading(counted.evidence.launches) if counted.evidence else {}
    return found | {name: means.get(name) for name in ("achieved_occupancy", "sm_share", "dram_share")}


def _occupancies(compiled: Compiled, concrete: Concrete) -> tuple[Occupancy, ...]:
    program = compiled.program
    resources = {kernel.kernel: kernel for kernel in compiled.kernels}
    names = {entry.symbol: entry.name for entry in program.entries} if program else {}
    found: dict[Occupancy, None] = {}
    for step in concrete.steps:
        if isinstance(step, KernelLaunch) and names.get(step.symbol) in resources:
            threads = step.block[0] * step.block[1] * step.block[2]
            found[occupancy(resources[names[step.symbol]], threads, step.shared_bytes, compiled.arch)] = None
    return tuple(found)
