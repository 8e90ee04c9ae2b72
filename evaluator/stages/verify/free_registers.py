"""Special registers whose values PTX leaves to the machine: where a thread runs, and when.

A program that reads `%smid` or a clock is run with other values each time: those of another GPU, another placement of
its blocks, another time of day. It may share out work by them, or keep statistics; its answer must be right whatever
they are (PTX ISA 9.0, section 10: `%warpid` and `%smid` "may change during the lifetime of a thread").
"""

import hashlib
from collections.abc import Mapping
from typing import Final

_MORE_DRAWS: Final = 3
"""Runs of one cheap trial beyond the first two."""
_MOST_DRAWS: Final = 12
"""Of those in one evaluation. With a draw for each trial that is some thirty, so that a GPU model of eight, or one
block of four on a multiprocessor beyond the 108th, is met for all but certain."""
_CYCLE: Final = 64
"""A draw's lowest bits count up, so that runtime/registers.cpp takes each model and each placement in its turn."""

REGISTERS_HINT: Final = (
    "Where and when a thread runs may change at any time: take indices from threadIdx and blockIdx, and let nothing "
    "but the sharing out of work, or statistics, depend on these registers."
)


class FreeRegisters:
    """The draws of one evaluation."""

    def __init__(self, read: Mapping[str, int | None], seed: int) -> None:
        """`read`: those that the program reads, with a line of each. `seed` (secret) draws; 0 draws nothing."""
        self.read = read if seed else {}
        self.drawn = 0
        """What the last run had."""
        self._seed = seed
        self._runs = self._more = 0

    def draw(self) -> int:
        """Values for the next run: below 2^64; 0 where the program reads none."""
        if self.read:
            self._runs += 1
            digest = hashlib.sha256(f"registers {self._seed} {self._runs}".encode()).digest()
            random = int.from_bytes(digest[:8], "little") // _CYCLE * _CYCLE
            self.drawn = (random + (self._seed + self._runs) % _CYCLE) or 1
        return self.drawn

    def more(self, cheap: bool) -> int:
        """How often to run a trial again, with other values."""
        count = min(_MORE_DRAWS, _MOST_DRAWS - self._more) if self.read and cheap else 0
        self._more += count
        return count

    def __str__(self) -> str:
        """`%smid (line 3), %clock64 (line 9)`."""
        return ", ".join(f"{name} (line {line})" if line else name for name, line in self.read.items())
