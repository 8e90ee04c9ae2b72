"""How a run of a compiler ended: it refused the source, broke down on it, said nothing, or someone outside ended it.

Only a refusal that names an error says something about the source for good, and may be kept.

A source can have a compiler say nearly everything, on lines of their own: a file's name in `#line`, and the texts of
warnings and assertions, hold line breaks. So signals are believed only where no source can have had them named (see
witness.py). Of want of memory and of room a compiler speaks itself, after the last error: one that reached its errors
names them after what a source had it say, and counts them at the end.
"""

import re
import signal
from collections.abc import Callable
from typing import Final

from evaluator.errors import JobKilledError
from evaluator.sandbox.retry import MAX_TRIES, OWN_FAULTS, foreign, job_killed, killed_from_outside
from evaluator.sandbox.sandbox import JobResult
from evaluator.stages.compile import diagnostics
from evaluator.stages.compile.witness import signals_told

# Where a message begins, and not in a text or a line of the source that it quotes.
_BROKE_DOWN: Final = re.compile(
    r"^(?:\S[^\n]*?(?:\(\d+\)|:\d+(?::\d+)?): |[\w+./-]+: |(?:ptxas|nvcc) [^\n]*)?internal (?:compiler )?error\b",
    re.IGNORECASE | re.MULTILINE,
)

_NO_MEMORY: Final = re.compile(
    r"virtual memory exhausted|out of memory|memory allocation failure|std::bad_alloc|cannot allocate memory",
    re.IGNORECASE,
)


def said(run: JobResult) -> str:
    """All that the compiler said."""
    return (run.stdout + run.stderr).decode(errors="replace")


def _last_words(run: JobResult) -> str:
    """What it said from the last error on, or all where it named none; nothing where the assembler named one, whose
    text may go on for lines, and after which nobody has anything to do.
    """
    words = said(run)
    return "" if diagnostics.names_an_assembler_error(words) else words[max(0, diagnostics.last_error(words)) :]


def out_of_memory(run: JobResult) -> bool:
    """Whether the compiler failed for want of memory, by its own account or the kernel's."""
    words = diagnostics.unplaced(_last_words(run))
    told = signal.SIGKILL in signals_told(run) & run.own_signals or _NO_MEMORY.search(words)
    return run.memory_exceeded or (run.exit_code != 0 and bool(told))


def out_of_room(run: JobResult) -> bool:
    """Whether the compiler says that a disk is full."""
    return "No space left on device" in diagnostics.unplaced(_last_words(run))


def refused(run: JobResult) -> bool:
    """Whether the compiler said what is wrong with the source, and nothing after that speaks of its own end."""
    broken = signals_told(run) or _BROKE_DOWN.search(_last_words(run))
    return run.exit_code != 0 and not broken and diagnostics.names_an_error(said(run))


def crash(run: JobResult) -> str:
    """How the compiler itself broke down, in words; empty where it did not."""
    if found := sorted(signals_told(run) & OWN_FAULTS):
        return f"ended by {signal.Signals(found[0]).name}"
    return "an internal error" if _BROKE_DOWN.search(said(run)) else ""


def until_it_tells(attempt: Callable[[], JobResult]) -> JobResult:
    """The first of MAX_TRIES runs that succeeds, meets a limit or names an error; else the last one.

    Raises JobKilledError where someone outside ended any of those that told nothing, or may have: a source that
    brings a compiler down does so in the same way each time.
    """
    by: signal.Signals | None = None
    endings = set()
    for number in range(1, MAX_TRIES + 1):
        try:
            run = attempt()
        except JobKilledError:
            if number == MAX_TRIES:
                raise
            by = signal.SIGKILL
            continue
        limited = run.met_limit or signals_told(run) & run.own_signals
        if run.exit_code == 0 or limited or out_of_memory(run) or out_of_room(run) or refused(run):
            return run
        by = foreign(run, signals_told(run)) or by
        endings.add((run.exit_code, run.signal, signals_told(run), crash(run)))
    # Where others were killed, one that crashed or was silent may have been killed too.
    if by is not None:
        raise killed_from_outside(by)
    if len(endings) > 1 and not diagnostics.names_an_error(said(run)):
        ways = sorted(words or f"exit code {code}, signal {number}" for code, number, _, words in endings)
        raise job_killed(f"A compiler broke down in another way each time: {'; '.join(ways)}.")
    return run
