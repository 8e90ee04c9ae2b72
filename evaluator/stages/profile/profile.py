"""The profile: what a program's kernels need and what that allows, from ptxas and from the run's own counts."""

from collections.abc import Mapping

from common.contract import Occupancy, Profile
from common.contract.counters import Estimate, Evidence
from evaluator.backends.session import KernelLaunch
from evaluator.stages.compile.nvcc import Compiled
from evaluator.stages.compile.resources import occupancy
from evaluator.stages.launch.checked_plan import CheckedPlan, SizedPlan, moved_bytes
from evaluator.stages.profile.estimate import estimate, with_naive
from evaluator.stages.profile.gpu_models import machines
from evaluator.stages.profile.naive_counters import naive_counts
from evaluator.stages.profile.pitfalls import find_pitfalls
from evaluator.stages.profile.profiler_result import Counted, mean_reading
from evaluator.stages.time.roofline import Roofline, precision_of


def profile(
    compiled: Compiled,
    checked_plan: CheckedPlan,
    thread_instructions: int,
    facts: Mapping[str, int] | None,
    evidence: Evidence | None = None,
) -> Profile:
    """Occupancy of each launch at the problem's typical size, what the backend counted, and what costs time."""
    sized_plan = checked_plan.at(checked_plan.problem.example_sizes[0])
    occupancies = _occupancies(compiled, sized_plan) if isinstance(sized_plan, SizedPlan) else ()
    found = Profile(
        occupancy=occupancies,
        thread_instructions=thread_instructions or None,
        warp_shuffles=facts["shuffles"] > 0 if facts and "shuffles" in facts else None,
    )
    if evidence is None:
        return found
    pitfalls = find_pitfalls(evidence, occupancies, compiled.kernels)
    shuffled = any("shuffle" in launch.by_class for launch in evidence.launches)
    return found.model_copy(
        update={
            **_efficiencies(evidence),
            "evidence": evidence,
            "pitfalls": pitfalls,
            "warp_shuffles": shuffled if found.warp_shuffles is None else found.warp_shuffles,
        }
    )


def _efficiencies(evidence: Evidence) -> dict[str, float]:
    """Of all launches together; what never happened, such as an access to shared memory, was not wasteful."""
    launches = evidence.launches
    useful_bytes = sum(part.useful_bytes for launch in launches for part in (launch.loads, launch.stores))
    sectors = sum(part.sectors for launch in launches for part in (launch.loads, launch.stores))
    least = sum(launch.shared.least_wavefronts for launch in launches)
    warps = sum(launch.warp_instructions for launch in launches)
    threads = sum(launch.thread_instructions for launch in launches)
    return {
        "memory_efficiency": min(useful_bytes / (32 * sectors), 1.0) if sectors else 1.0,
        "bank_conflict_ways": sum(launch.shared.wavefronts for launch in launches) / least if least else 1.0,
        "lane_efficiency": min(threads / (32 * warps), 1.0) if warps else 1.0,
    }


def counters(counted: Counted) -> dict[str, object]:
    """What the GPU's profiler adds to a `Profile`, by field."""
    found: dict[str, object] = {"not_measured": counted.not_measured, "gpu_evidence": counted.evidence}
    means = mean_reading(counted.evidence.launches) if counted.evidence else {}
    shares = {name: means.get(name) for name in ("achieved_occupancy", "sm_share", "dram_share")}
    # The bandwidth that rewards go by: the bytes that were moved, not those that the problem must move at least.
    return found | shares | {"bandwidth_share": means.get("dram_share")}


def expected_time(compiled: Compiled, checked_plan: CheckedPlan, evidence: Evidence, gpu: str) -> Estimate:
    """The time on a GPU of `machines`, beside that of the problem's naive kernel, from counts at one size."""
    problem, machine = checked_plan.problem, machines()[gpu]
    floor_us = Roofline(problem.work(evidence.sizes), precision_of(problem), machine.peaks).floor_us
    moved = moved_bytes(checked_plan.at(evidence.sizes))
    found = estimate(evidence, compiled.kernels, machine, floor_us, moved_bytes=moved)
    naive = naive_counts(problem, evidence.sizes)
    if naive is None:
        return found
    slow = estimate(naive.evidence, naive.resources, machine, floor_us, moved_bytes=naive.moved_bytes)
    return with_naive(found, slow)


def _occupancies(compiled: Compiled, sized_plan: SizedPlan) -> tuple[Occupancy, ...]:
    program = compiled.program
    resources = {kernel.kernel: kernel for kernel in compiled.kernels}
    names = {entry.symbol: entry.name for entry in program.entries} if program else {}
    found: dict[Occupancy, None] = {}
    for step in sized_plan.steps:
        if isinstance(step, KernelLaunch) and names.get(step.symbol) in resources:
            threads = step.block[0] * step.block[1] * step.block[2]
            found[occupancy(resources[names[step.symbol]], threads, step.shared_bytes, compiled.arch)] = None
    return tuple(found)
