"""The plan once more, at the size that is timed, under the GPU's own profiler."""

import re
from collections.abc import Mapping
from typing import Final

from common.contract import Settings
from common.contract.counters import Evidence
from evaluator.backends.gpu.tools.launch import ToolMissingError
from evaluator.backends.gpu.tools.nsight import Profiler
from evaluator.backends.session import PlanRun, Program
from evaluator.errors import InfrastructureError, Ruling
from evaluator.problems.arrays import Rng
from evaluator.problems.problem import Sizes
from evaluator.stages.launch.checked_plan import CheckedPlan
from evaluator.stages.profile.profiler_result import Counted

_POISON: Final = 0xFF
_RUN_S: Final = 30.0


def count(
    checked_plan: CheckedPlan,
    program: Program,
    static_shared_bytes: Mapping[str, int],
    sizes: Sizes,
    settings: Settings,
    rng: Rng,
    profiler: Profiler,
) -> Counted:
    """Profile one run at `sizes` on fresh inputs. Whatever fails is said, and held against nobody."""
    sized_plan = checked_plan.at(sizes, settings.memory_bytes)
    if isinstance(sized_plan, Ruling):
        return Counted(None, (f"GPU counters: {sized_plan.message}",))
    inputs = checked_plan.problem.distributions[0].draw(rng, sizes)
    try:
        launches = profiler.profile(
            program, PlanRun(sized_plan.buffers_with(inputs), sized_plan.steps, _POISON, _RUN_S), static_shared_bytes
        )
    except ToolMissingError as refused:
        return Counted(None, (f"GPU counters: {refused}. {refused.remedy}",))
    except InfrastructureError as fault:
        return Counted(None, (f"GPU counters: {re.sub(r'[.]$', '', str(fault))}. {fault.remedy or ''}".strip(),))
    return Counted(Evidence(source="ncu", sizes=dict(sizes), launches=launches))
