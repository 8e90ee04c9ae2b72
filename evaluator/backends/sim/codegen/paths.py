"""How lanes get from block to block: jumps, waiting lanes, the watchdog and the end of a function.

`m` holds the lanes that run now; lanes that went elsewhere wait in `pending`, and the lowest block runs first (see
control_flow.py).
"""

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Final

from evaluator.backends.sim.codegen.blocks import ControlFlow
from evaluator.backends.sim.ptx.model import Function

_TURNS: Final = 256
"""Rounds of a loop before lanes of the same warp that wait elsewhere get a turn: it may wait for them."""
_WAITING_TURNS: Final = 16
"""Of one that does nothing but wait."""
_WAITING_LENGTH: Final = 4096
"""What a round of such a loop counts as, in instructions: after sixteen of them others go on, at once where blocks
wait for each other (`FUEL` and `SHORT_TURN` in runtime/runtime.cpp)."""


class Paths:
    """The C++ text of one function's jumps."""

    def __init__(
        self, function: Function, flow: ControlFlow, waited_for: set[int], place: Callable[[int], int]
    ) -> None:
        self.function = function
        self.flow = flow
        self.waited_for = waited_for
        """Blocks at which lanes may wait."""
        self.place = place
        self.ends = (0, *accumulate(len(block.body) for block in flow.blocks))

    def go(self, here: int, target: int | None, line: int) -> Iterator[str]:
        """Send all running lanes from block `here` to another one; None is the end of the function."""
        if target is None:
            yield self.leave("m")
            yield "goto dispatch;"
        elif target <= here:
            yield from self._look_at_clock(here, target, line)
            yield f"goto B{target};"
        elif target not in self.waited_for:
            yield f"goto B{target};"
        else:
            alone = f"(LANES_APART ? {len(self.flow.blocks) - 1} : {target})" if self.flow.apart else f"{target}"
            yield f"if (__builtin_expect(pending.next > {alone}, 1)) goto B{target};"
            yield f"{self.wait(target, 'm')} goto dispatch;"

    def wait(self, target: int, lanes: str) -> str:
        """Have lanes wait at a block. Those that only end there count as gone for what the others do together."""
        body = self.flow.blocks[target].body
        ends = self.function.is_entry and body and all(i.opcode in ("ret", "exit") for i in body)
        return f"pending.add({target}, {lanes});" + (f" w.leaving |= {lanes};" if ends else "")

    def _look_at_clock(self, here: int, target: int, line: int) -> Iterator[str]:
        waits = (here, target) in self.flow.waiting
        length = self.ends[here + 1] - self.ends[target]
        yield self.burn(max(length, _WAITING_LENGTH) if waits else length, self.place(line))
        if self.flow.apart:
            yield f"if (LANES_APART && pending.next != {len(self.flow.blocks)}) {{"
            yield f"pending.add({target}, m); goto dispatch; }}"
        if self.flow.spins:
            count = len(self.flow.blocks)
            most = _WAITING_TURNS if waits else _TURNS
            yield f"if (pending.next != {count} && ++turns >= {most}) {{ turns = 0;"
            yield f"pending.add({target}, m); m = pending.take_turn(at); goto resume; }}"
            yield f"if (pending.next <= {target}) {{ pending.add({target}, m); goto dispatch; }}"

    def burn(self, instructions: int, place: int) -> str:
        """Take the cost of so many instructions from what the watchdog allows."""
        cost = 1 + instructions // 16
        return f"if (__builtin_expect((w.fuel -= {cost}) < 0, 0)) watchdog(w, m, {place});"

    def burn_all(self, place: int) -> str:
        """Take the cost of the whole function: for a jump of which nobody knows how far it goes."""
        return self.burn(self.ends[-1], place)

    def leave(self, lanes: str) -> str:
        """End the function for some lanes."""
        return f"w.live &= ~({lanes});" if self.function.is_entry else f"returned |= {lanes};"
