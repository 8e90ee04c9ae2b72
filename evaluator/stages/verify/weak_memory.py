"""Runs in which memory is as weak as the PTX ISA allows it (9.0, section 8), where blocks share it on purpose.

Stores may stay with their block until a fence of sufficient scope, and old lines may be read again: the simulator's
runtime/weak_memory.h says how. A right kernel is right whatever is drawn. One without strong accesses, atomics and
fences is not run so: what its blocks do to each other is a race, which watching finds.
"""

import hashlib
from dataclasses import replace
from typing import Final

from common.contract import Fault, HazardWarning
from evaluator.backends.session import RunOutcome
from evaluator.errors import Ruling
from evaluator.stages.verify.findings.race_checks import sentence

_DRAWS: Final = 3
"""Runs of one cheap trial, that differ in which stores stay."""
_MOST_DRAWS: Final = 15
"""Of those in one evaluation: each way in which stores stay, with and without old lines, comes up."""
_CYCLE: Final = 15
"""What a draw's remainder chooses in runtime/weak_memory.cpp: five ways by three."""
_EXPLAIN: Final = ("lost_update", "stale_read")
"""Findings that say why an answer is wrong; an update that is lost says more."""
_FAULTS_OF_OURS: Final = ("watchdog", "instruction_limit", "out_of_memory")
"""Weak memory costs time and room: a run that ends so accuses nobody."""

WEAK_MEMORY_HINT: Final = (
    "Other blocks see what a block has stored only behind `__threadfence()` and an atomic or a volatile access that "
    "announces it, and they need a fence as well before they read."
)


class WeakMemory:
    """The draws of one evaluation."""

    def __init__(self, shares_memory: bool, seed: int) -> None:
        """`seed` (secret) draws; 0 draws nothing."""
        self._seed = seed if shares_memory else 0
        self._done = 0

    def draws(self, cheap: bool) -> list[int]:
        """For runs of a trial: below 2^63, never 0."""
        count = min(_DRAWS, _MOST_DRAWS - self._done) if self._seed and cheap else 0
        found = []
        for _ in range(count):
            digest = hashlib.sha256(f"weak memory {self._seed} {self._done}".encode()).digest()
            random = int.from_bytes(digest[:8], "little") >> 1
            found.append((random // _CYCLE * _CYCLE + self._done % _CYCLE) or _CYCLE)
            self._done += 1
        return found


def is_ours(fault: Fault) -> bool:
    """Whether a fault may be due to what such a run costs."""
    return fault.kind in _FAULTS_OF_OURS


def explained(
    ruling: Ruling, draw: int, outcome: RunOutcome, source_lines: int, otherwise: str | None = WEAK_MEMORY_HINT
) -> tuple[Ruling, Fault | None]:
    """The ruling on a run in weak memory, with the pair of accesses that explains it, where one was seen.

    `otherwise`: the hint where none was.
    """
    explaining = (each for each in outcome.hazards if each.kind in _EXPLAIN)
    found = min(explaining, key=lambda each: _EXPLAIN.index(each.kind), default=None)
    said = f" {sentence(found.fault, source_lines)}." if found else ""
    message = f"In memory as weak as the PTX ISA allows it (draw {draw}):{said} {ruling.message}"
    ruling = replace(ruling, message=message, hint=found.remedy if found else otherwise)
    return ruling, outcome.fault or (found.fault if found else None)


def lost_updates(outcome: RunOutcome, source_lines: int) -> list[HazardWarning]:
    """Of a run whose answer was right."""
    return [
        HazardWarning(
            kind=found.kind, message=sentence(found.fault, source_lines), line=found.fault.line, remedy=found.remedy
        )
        for found in outcome.hazards
        if found.kind == "lost_update"
    ]
