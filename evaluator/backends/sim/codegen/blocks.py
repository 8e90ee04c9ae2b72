"""What the passes find out about one function: its basic blocks, and which writes need a lane mask."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from evaluator.backends.sim.ptx.model import Instruction


@dataclass
class Block:
    """A basic block; `successors` are indexes into the function's block list, a branch's targets first."""

    index: int
    body: list[Instruction] = field(default_factory=list)
    successors: list[int] = field(default_factory=list)
    in_cycle: bool = False
    text_place: float = 0
    """Where it stands in the text; a latch comes right behind the last of its loop's ends."""


@dataclass(frozen=True)
class ControlFlow:
    """Blocks in reverse post-order."""

    blocks: Sequence[Block]
    labels: Mapping[str, int]
    spins: bool
    """Whether a loop waits on memory, so that diverged lanes must take turns."""
    apart: bool = False
    """Whether diverged lanes may go on in any order, which a run draws: blocks begin where they must meet."""
    waiting: Set[tuple[int, int]] = frozenset()
    """Jumps back, from one block to another, of loops that do nothing but wait for other threads."""


@dataclass(frozen=True)
class Masks:
    """Where registers live, and which writes must keep inactive lanes' values."""

    live_in: Sequence[Set[str]]
    live_out: Sequence[Set[str]]
    definitions: Mapping[str, int]
    """How many instructions write a register."""
    crossing: Set[str]
    """Registers that are live at the start of any block."""
    any_order: bool
    """Whether lanes may come to a block behind others that have left it."""

    def needed(self, block: Block, register: str) -> bool:
        """Whether a write to `register` in `block` can meet an inactive lane that still needs its old value.

        That lane waits at some other block. Where there is one definition only, it must have come through this very
        block, so the register is live at the block's end; where there are several it may hold another one's value.
        """
        if self.definitions.get(register, 0) != 1:
            return register in self.crossing
        return register in self.live_out[block.index] and (block.in_cycle or self.any_order)
