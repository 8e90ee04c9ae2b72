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
_WEAK_COST: Final = 16
"""An instruction in weak memory takes 5 to 12 ns of a thread, where a plain one takes half of one."""
_LEAST_LANES: Final = 8
"""What a warp's instruction costs at least, in thread-instructions, however few lanes execute it."""
_TURN_COST: Final = 3_000
"""What it costs to move one block's state out and another one's in, in thread-instructions: a microsecond or two."""
_LEAST_BUDGET: Final = 200_000_000
"""Thread-instructions that schedules, and runs in weak memory, may cost in any case: a tenth of a second each."""
_LEAST_LIMIT: Final = 4_000_000
_TIMES_USUAL: Final = 30
"""How many times as many instructions a run may take whose warps wait for those that have lower priorities."""
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
        self._spent = 0

    def draws(self, cheap: bool, usual: int = 0, plain: int = 0) -> list[int]:
        """For runs of a trial: below 2^63, never 0; as many as can be afforded.

        `usual`: thread-instructions of the trial in the usual order. `plain`: those of all plain runs so far.
        """
        count = min(_DRAWS, _MOST_DRAWS - self._done) if self._seed and cheap else 0
        if usual:
            count = min(count, max(0, budget(plain) - self._spent) // expected_cost(usual, weak=True))
        found = []
        for _ in range(count):
            digest = hashlib.sha256(f"weak memory {self._seed} {self._done}".encode()).digest()
            random = int.from_bytes(digest[:8], "little") >> 1
            found.append((random // _CYCLE * _CYCLE + self._done % _CYCLE) or _CYCLE)
            self._done += 1
        return found

    def ran(self, outcome: RunOutcome) -> None:
        """Take account of what a run cost."""
        self._spent += cost_of(outcome, weak=True)


def budget(plain: int) -> int:
    """What schedules may cost in all, and runs in weak memory as much again; `plain`: what plain runs took so far."""
    return max(_LEAST_BUDGET, plain)


def expected_cost(usual: int, weak: bool) -> int:
    """Of a run that takes `usual` thread-instructions in the usual order."""
    return max(1, usual * (_WEAK_COST if weak else 1))


def cost_of(outcome: RunOutcome, weak: bool) -> int:
    """Of an adversarial run, in plain thread-instructions: the same on every machine."""
    executed = max(outcome.thread_instructions, _LEAST_LANES * outcome.facts.get("warp_instructions", 0))
    return expected_cost(executed, weak) + _TURN_COST * outcome.facts.get("schedule_turns", 0)


def adversarial_limit(usual: int) -> int:
    """After how many thread-instructions such a run ends."""
    return _LEAST_LIMIT + _TIMES_USUAL * usual


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
