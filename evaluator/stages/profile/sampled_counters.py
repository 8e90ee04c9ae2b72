"""Counting at the sizes that a GPU would be timed at: a few blocks of each launch, chosen at random and scaled up.

Memory at those sizes is hundreds of megabytes, and nobody looks at the answer, so that inputs are one piece of real
content again and again, and everything else begins as zeros. What nobody looks at need not be done: so counts are
believed only where they hold about as much of the problem's least work as those of a size whose answer was right.
"""

from collections.abc import Mapping
from math import prod
from typing import Final

import numpy as np

from common.contract import Settings
from common.contract.counters import Evidence
from evaluator.backends.session import TYPICAL_REGISTERS, Buffer, PlanRun, Session
from evaluator.errors import Ruling
from evaluator.problems.arrays import Array, Rng, rng_seed, to_numpy
from evaluator.problems.problem import Sizes
from evaluator.stages.launch.checked_plan import BufferFacts, CheckedPlan, moved_bytes

_PIECE_BYTES: Final = 1 << 20
_ZEROS: Final = 0
_BLOCKS: Final = 8
_TIME_LIMIT_S: Final = 0.5
_SECTOR_BYTES: Final = 32
_MIN_SHARE: Final = 0.5
"""Of the least work that verified counts hold. Tiles cover edges, and a sample of eight blocks knows the bytes that
all share only roughly; what leaves work out to be fast leaves out most of it."""


def sample(checked_plan: CheckedPlan, session: Session, settings: Settings, rng: Rng) -> Evidence | None:
    """Counts of each launch at the sizes of the timing, from a few blocks.

    None where they do not come to an end: blocks that wait for others never do, and contents that are only a part of
    the answer may lead a kernel astray. Then `session` has ended too. Raises InfrastructureError.
    """
    return count_at(checked_plan, session, settings, rng, checked_plan.problem.timing_sizes, _BLOCKS, _TIME_LIMIT_S)


def count_at(
    checked_plan: CheckedPlan,
    session: Session,
    settings: Settings,
    rng: Rng,
    sizes: Sizes,
    blocks: int,
    time_limit_s: float,
) -> Evidence | None:
    """Counts at `sizes` from `blocks` blocks of each launch (0: all); None where the backend gives none, or the run
    faults or takes too long. Raises InfrastructureError.
    """
    sized_plan = checked_plan.at(sizes, settings.memory_bytes)
    if isinstance(sized_plan, Ruling):
        return None
    drawn = checked_plan.problem.distributions[0].draw(rng, checked_plan.problem.example_sizes[0])
    buffers = tuple(_buffer(facts, drawn) for facts in sized_plan.buffers)
    run = PlanRun(
        buffers,
        sized_plan.steps,
        _ZEROS,
        time_limit_s,
        count=True,
        sample_blocks=blocks,
        sample_seed=rng_seed(rng),
        registers=TYPICAL_REGISTERS,
    )
    outcome = session.run(run)
    if not outcome.counts:
        return None
    return Evidence(source="simulator", sizes=dict(sizes), launches=outcome.counts)


def shortfall(sampled: Evidence, verified: Evidence, checked_plan: CheckedPlan) -> str | None:
    """What the counts of `sampled` lack beside those of `verified`, a size whose answer was right, in words; or None.

    Such counts are no base for an estimate: the kernel leaves work out at sizes where nobody checks it, or leaves it
    to few blocks, which a sample misses.
    """
    for what, done, right in zip(
        _UNITS, _shares(sampled, checked_plan), _shares(verified, checked_plan), strict=True
    ):
        if done < _MIN_SHARE * min(right, 1.0):
            at = ", ".join(f"{name}={extent}" for name, extent in sampled.sizes.items())
            base = ", ".join(f"{name}={extent}" for name, extent in verified.sizes.items())
            return (
                f"at {at} the blocks that were counted do {done:.2g} of the {what} that the problem needs (all of it "
                f"is 1, at {base} they do {right:.2g}), so that the time is estimated at {base} instead"
            )
    return None


_UNITS: Final = ("memory traffic", "arithmetic")


def _shares(evidence: Evidence, checked_plan: CheckedPlan) -> tuple[float, float]:
    """Bytes that reach memory, and floating-point operations, over the least that the problem needs."""
    work = checked_plan.problem.work(evidence.sizes)
    sectors = sum(one.loads.unique_sectors + one.stores.unique_sectors for one in evidence.launches)
    moved = _SECTOR_BYTES * sectors + sum(moved_bytes(checked_plan.at(evidence.sizes)))
    flops = sum(sum(one.flops.values()) for one in evidence.launches)
    return moved / max(work.read_bytes + work.written_bytes, 1), flops / max(work.flops, 1)


def _buffer(facts: BufferFacts, drawn: Mapping[str, Array]) -> Buffer:
    """What is never handed back has the role of a temporary."""
    if facts.role != "input":
        return Buffer(facts.name, "temporary", facts.size_bytes, facts.dtype.size_bytes, None, repeats=True)
    whole = facts.size_bytes < _PIECE_BYTES
    elements = prod(facts.shape) if whole else _PIECE_BYTES // facts.dtype.size_bytes
    piece = np.resize(to_numpy(drawn[facts.name]).reshape(-1), elements)
    return Buffer(facts.name, "temporary", facts.size_bytes, facts.dtype.size_bytes, piece, repeats=not whole)
