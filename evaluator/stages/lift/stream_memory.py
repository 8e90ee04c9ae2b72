"""Memory that host code takes and gives back in the order of streams, and what may use it too early or too late.

As CUDA has it (CUDA C++ Programming Guide, "Stream Ordered Memory Allocator"): memory may be used behind the
cudaMallocAsync that takes it, and before the cudaFreeAsync that gives it back, in the order of streams. What was
given back may be taken again at once; where another stream takes it, the pool lets that one wait. `cudaFree` waits
for nothing where the memory is of a pool, which has it back at once; with other memory it waits for all.

Where nothing was given back before memory is taken, that memory is nobody else's, also for a step that may run before
it is taken.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from evaluator.stages.lift.recording import RecordedAllocation, RecordedFree, RecordedOrder
from evaluator.stages.lift.stream_order import StreamOrder, Touched, step_in_words, stream_in_words


@dataclass(frozen=True)
class IssuedStep:
    """A launch, a fill or a copy."""

    step: Touched
    stream: int


Issued: TypeAlias = IssuedStep | RecordedOrder | RecordedAllocation | RecordedFree
"""What the host issues, one after another."""


@dataclass(frozen=True)
class _Taken:
    """An allocation, by its place in the order, and the steps on what was given back before."""

    bit: int
    given_back: int
    at_once: int
    """Those of them on what `cudaFree` gave back, for which no pool lets anybody wait."""


def misuse(issued: Sequence[Issued], names: Sequence[str | None], non_blocking: Sequence[int]) -> str | None:
    """Memory of streams that a step of another may use when it is not its own, in words.

    `names`: of the buffers, by their number; those that no step uses have none.
    """
    if not any(isinstance(one, RecordedAllocation | RecordedFree) for one in issued):
        return None
    order = StreamOrder(non_blocking)
    said: list[str] = []
    users: dict[str, int] = defaultdict(int)
    taken: dict[str, _Taken] = {}
    given_back = at_once = steps = 0
    for one in issued:
        number = len(said)
        if isinstance(one, RecordedOrder):
            order.add(one)
        elif isinstance(one, IssuedStep):
            order.add_step(one.stream)
            said.append(step_in_words(steps, one.step, one.stream))
            steps += 1
            for name in one.step.buffers:
                users[name] |= 1 << number
                if name not in taken:
                    continue
                before, memory = order.before[number], taken[name]
                others = memory.at_once if before & memory.bit else memory.given_back
                if late := others & ~before:
                    return (
                        f"{said[number]} may use '{name}' while {_first(said, late)} still uses memory that was "
                        "given back before, which it may be: no event and no wait orders them"
                    )
        else:
            buffer = one.allocate if isinstance(one, RecordedAllocation) else one.free
            used = names[buffer] if buffer < len(names) else None
            if used is None:
                continue
            if one.stream is None:
                at_once |= users[used]
                given_back |= users[used]
                continue
            order.add_step(one.stream)
            said.append("")
            if isinstance(one, RecordedAllocation):
                taken[used] = _Taken(1 << number, given_back, at_once)
                continue
            if late := users[used] & ~order.before[number]:
                return (
                    f"{_first(said, late)} may still use '{used}' when cudaFreeAsync gives it back on "
                    f"{stream_in_words(one.stream)}: no event and no wait orders them"
                )
            given_back |= users[used]
    return None


def _first(said: Sequence[str], numbers: int) -> str:
    return said[(numbers & -numbers).bit_length() - 1]
