"""Counting: one more run of a kernel that was right, at the problem's typical size, for what a profiler would say."""

from dataclasses import replace
from typing import Final

from common.contract import Settings
from common.contract.counters import Evidence
from evaluator.backends.session import TYPICAL_REGISTERS, PieceSession, PlanRun
from evaluator.errors import Ruling
from evaluator.problems.arrays import Rng, rng_seed
from evaluator.problems.problem import Sizes
from evaluator.stages.launch.checked_plan import CheckedPlan

_COUNTING_S: Final = 2.0
_SAMPLES: Final = (0, 64, 8)
"""Blocks of each launch that are run: all; where that takes too long, fewer, chosen at random."""
_POISON: Final = 0xFF


def tally(
    checked_plan: CheckedPlan,
    session: PieceSession,
    settings: Settings,
    rng: Rng,
    sizes: Sizes | None = None,
) -> Evidence | None:
    """Counts of each launch at `sizes` (the problem's typical ones by default), on contents from `rng`.

    Where only some blocks were run, `session` holds what they left. None where the backend does not count,
    or not in time; that is never held against the submission. Raises UnsupportedError, InfrastructureError.
    """
    problem = checked_plan.problem
    sizes = problem.example_sizes[0] if sizes is None else sizes
    sized_plan = checked_plan.at(sizes, settings.memory_bytes)
    if isinstance(sized_plan, Ruling):
        return None
    inputs = problem.distributions[0].draw(rng, sizes)
    chosen = PlanRun(
        sized_plan.buffers_with(inputs),
        sized_plan.steps,
        _POISON,
        _COUNTING_S,
        count=True,
        sample_seed=rng_seed(rng),
        registers=TYPICAL_REGISTERS,
    )
    for blocks in _SAMPLES:
        if blocks:
            session.renew()
        outcome = session.run(replace(chosen, sample_blocks=blocks))
        if outcome.counts:
            return Evidence(source="simulator", sizes=dict(sizes), launches=outcome.counts)
        if outcome.fault is None or outcome.fault.kind != "watchdog":
            return None
    return None
