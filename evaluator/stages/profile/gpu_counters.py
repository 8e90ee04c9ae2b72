"""The plan once more, at the size that is timed, under the GPU's own profiler."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from common.contract import Settings
from common.contract.counters import Evidence
from evaluator.backends.gpu.tools.launch import NoInstrument
from evaluator.backends.gpu.tools.nsight import Profiler
from evaluator.backends.session import Buffer, PlanRun, Program
from evaluator.errors import InfrastructureFault, Ruling
from evaluator.problems.arrays import Dice
from evaluator.problems.problem import Sizes
from evaluator.stages.launch.checked_plan import Launchable

_POISON: Final = 0xFF
_RUN_S: Final = 30.0


@dataclass(frozen=True)
class Counted:
    """What the profiler counted, or why it did not."""

    evidence: Evidence | None
    not_measured: tuple[str, ...] = ()


def count(
    launchable: Launchable,
    program: Program,
    static_shared_bytes: Mapping[str, int],
    sizes: Sizes,
    settings: Settings,
    dice: Dice,
    profiler: Profiler,
) -> Counted:
    """Profile one run at `sizes` on fresh inputs. Whatever fails is said, and held against nobody."""
    concrete = launchable.at(sizes, settings.memory_bytes)
    if isinstance(concrete, Ruling):
        return Counted(None, (f"GPU counters: {concrete.message}",))
    inputs = launchable.problem.distributions[0].draw(dice, sizes)
    buffers = tuple(
        Buffer(b.name, b.role, b.size_bytes, b.dtype.size_bytes, inputs[b.name] if b.role == "input" else None)
        for b in concrete.buffers
    )
    try:
        launches = profiler.profile(program, PlanRun(buffers, concrete.steps, _POISON, _RUN_S), static_shared_bytes)
    except NoInstrument as refused:
        return Counted(None, (f"GPU counters: {refused}. {refused.remedy}",))
    except InfrastructureFault as fault:
        return Counted(None, (f"GPU counters: {re.sub(r'[.]$', '', str(fault))}. {fault.remedy or ''}".strip(),))
    return Counted(Evidence(source="ncu", sizes=dict(sizes), launches=launches))
