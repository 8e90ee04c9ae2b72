"""How a run of a compiler ended: it refused the source, broke down on it, said nothing, or someone outside ended it.

Only a refusal that names an error says something about the source for good, and may be kept.
"""

import re
import signal
from collections.abc import Callable
from typing import Final

from evaluator.errors import JobKilledError
from evaluator.sandbox.retry import MOST_TRIES, OWN_FAULTS, foreign, killed_from_outside, signals_of
from evaluator.sandbox.sandbox import Finished
from evaluator.stages.compile import diagnostics

_BROKE_DOWN: Final = re.compile(r"\binternal (?:compiler )?error\b", re.IGNORECASE)

_NO_MEMORY: Final = re.compile(
    r"virtual memory exhausted|out of memory|memory allocation failure|std::bad_alloc|cannot allocate memory",
    re.IGNORECASE,
)


def said(run: Finished) -> str:
    """All that the compiler said."""
    return (run.stderr + run.stdout).decode(errors="replace")


def signals_told(run: Finished) -> frozenset[int]:
    """The signals that ended the compiler or one of its programs, by its exit and by what it said of itself."""
    return signals_of(run, diagnostics.unplaced(said(run)))


def out_of_memory(run: Finished) -> bool:
    """Whether the compiler failed for want of memory, by its own account or the kernel's."""
    told = signal.SIGKILL in signals_told(run) & run.own_signals or _NO_MEMORY.search(diagnostics.unplaced(said(run)))
    return run.memory_exceeded or (run.exit_code != 0 and bool(told))


def out_of_room(run: Finished) -> bool:
    """Whether the compiler says that a disk is full."""
    return "No space left on device" in diagnostics.unplaced(said(run))


def refused(run: Finished) -> bool:
    """Whether the compiler said what is wrong with the source, and nothing else speaks of its end."""
    broken = signals_told(run) or _BROKE_DOWN.search(said(run))
    return run.exit_code != 0 and not broken and diagnostics.names_an_error(said(run))


def crash(run: Finished) -> str:
    """How the compiler itself broke down, in words; empty where it did not."""
    if found := sorted(signals_told(run) & OWN_FAULTS):
        return f"ended by {signal.Signals(found[0]).name}"
    return "an internal error" if _BROKE_DOWN.search(said(run)) else ""


def until_it_tells(attempt: Callable[[], Finished]) -> Finished:
    """The first of MOST_TRIES runs that succeeds, meets a limit or names an error; else the last one.

    Raises JobKilledError where someone outside ended any of those that told nothing.
    """
    by: signal.Signals | None = None
    for number in range(1, MOST_TRIES + 1):
        try:
            run = attempt()
        except JobKilledError:
            if number == MOST_TRIES:
                raise
            by = signal.SIGKILL
            continue
        limited = run.timed_out or run.limit_hit or signals_told(run) & run.own_signals
        if run.exit_code == 0 or limited or out_of_memory(run) or out_of_room(run) or refused(run):
            return run
        by = foreign(run, diagnostics.unplaced(said(run))) or by
    # A source can make its errors look like a death, but not without an error. And where others were killed, one that
    # crashed or was silent may have been killed too.
    if by is not None and not diagnostics.names_an_error(said(run)):
        raise killed_from_outside(by)
    return run
