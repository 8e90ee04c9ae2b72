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
from evaluator.problems.problem import Sizes
from evaluator.stages.verify.findings.race_checks import sentence

_DRAWS: Final = 3
"""Runs of one cheap trial, that differ in which stores stay."""
_MOST_DRAWS: Final = 15
"""Of those in one evaluation: each way in which stores stay, with and without old lines, comes up."""
_CYCLE: Final = 15
"""What a draw's remainder chooses in runtime/weak_memory.cpp: five ways by three."""
_FREE: Final = 4
"""The remainder with which stores stay by chance, and every load may come early."""
_EXPLAIN: Final = ("lost_update", "stale_read")
"""Findings that say why an answer is wrong; an update that is lost says more."""
_EXPLAIN_ORDER: Final = ("lost_update",)
"""Those that say it where memory is not to blame."""
_LARGER: Final = 2
"""How many times as large one of its sizes is, where a trial is run once because it is larger than all before."""
_LARGER_BUDGETS: Final = 2
"""What larger trials may cost, in budgets, and one of them one: a later one may be larger in another direction."""
_CHEAP_INSTRUCTIONS: Final = 4_000_000
"""Of trials that are run several times."""
STRONG: Final = 1 << 63
"""With a draw: the same order of blocks and warps, but every store is seen at once (runtime/weak_memory.h)."""
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


SCHEDULE_HINT: Final = (
    "Blocks and warps go on in any order, and others may come between any two of their accesses, atomics included. "
    "What must be one step belongs into one atomic; what must be done before belongs behind a barrier of all who do "
    "it, or before an atomic or a flag that others wait for, with `__threadfence()` in between."
)


class WeakMemory:
    """The draws of one evaluation."""

    def __init__(self, shares_memory: bool, seed: int) -> None:
        """`seed` (secret) draws; 0 draws nothing."""
        self._seed = seed if shares_memory else 0
        self._done = 0
        self._spent = 0
        self._largest: dict[str, int] = {}
        self._spent_on_larger = 0

    def draws(self, wanted: bool, usual: int = 0, plain: int = 0, sizes: Sizes | None = None) -> list[int]:
        """For runs of a trial: below 2^63, never 0; as many as can be afforded.

        `usual`: thread-instructions of the trial in the usual order. `plain`: those of all plain runs so far. Where
        it is expensive, or enough were drawn, there is one if one of its `sizes` is far larger than all before: what
        threads share above some size only, they share there. Such runs have a budget of their own.
        """
        if not (self._seed and wanted):
            return []
        known, sizes = self._largest, sizes or {}
        is_larger = any(size >= _LARGER * known.get(name, 0) for name, size in sizes.items())
        cost = expected_cost(usual, weak=True)
        count = min(_DRAWS, _MOST_DRAWS - self._done)
        if usual:
            count = min(count, max(0, budget(plain) - self._spent) // cost)
        if usual > _CHEAP_INSTRUCTIONS or not count:
            most = budget(plain)
            if not is_larger or cost > most or self._spent_on_larger + cost > _LARGER_BUDGETS * most:
                return []
            self._spent_on_larger += cost
            self._spent -= cost  # not of the budget of those that are cheap, to which `ran` will add it
            found = [self._draw(f"larger {self._spent_on_larger}", _FREE)]
        else:
            found = [self._draw(str(self._done + turn), (self._done + turn) % _CYCLE) for turn in range(count)]
            self._done += count
        self._largest = {name: max(size, known.get(name, 0)) for name, size in sizes.items()}
        return found

    def _draw(self, name: str, remainder: int) -> int:
        digest = hashlib.sha256(f"weak memory {self._seed} {name}".encode()).digest()
        return (int.from_bytes(digest[:8], "little") >> 1) // _CYCLE * _CYCLE + (remainder or _CYCLE)

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


def is_ours(fault: Fault | None) -> bool:
    """Whether it ended by a fault that may be due to what such a run costs."""
    return fault is not None and fault.kind in _FAULTS_OF_OURS


def explained(
    ruling: Ruling, draw: int, outcome: RunOutcome, source_lines: int, otherwise: str | None = WEAK_MEMORY_HINT
) -> tuple[Ruling, Fault | None]:
    """The ruling on a run in weak memory, with the pair of accesses that explains it, where one was seen.

    `otherwise`: the hint where none was.
    """
    how = f"In memory as weak as the PTX ISA allows it (draw {draw})"
    return _explained(ruling, how, _EXPLAIN, outcome, source_lines, otherwise)


def explained_by_order(
    ruling: Ruling, draw: int, outcome: RunOutcome, source_lines: int
) -> tuple[Ruling, Fault | None]:
    """The ruling on a run that was wrong where every store is seen at once: blocks came in another order."""
    how = f"With blocks and warps interleaved (draw {draw})"
    return _explained(ruling, how, _EXPLAIN_ORDER, outcome, source_lines, SCHEDULE_HINT)


def _explained(
    ruling: Ruling, how: str, kinds: tuple[str, ...], outcome: RunOutcome, source_lines: int, otherwise: str | None
) -> tuple[Ruling, Fault | None]:
    """By the first of these kinds of finding that was seen."""
    explaining = (each for each in outcome.hazards if each.kind in kinds)
    found = min(explaining, key=lambda each: kinds.index(each.kind), default=None)
    said = f" {sentence(found.fault, source_lines)}." if found else ""
    ruling = replace(ruling, message=f"{how}:{said} {ruling.message}", hint=found.remedy if found else otherwise)
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
