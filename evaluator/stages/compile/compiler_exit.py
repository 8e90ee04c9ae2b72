"""How a run of a compiler ended: it refused the source, broke down on it, said nothing, or someone outside ended it.

Only a refusal that names an error says something about the source for good, and may be kept.

A source can have a compiler say nearly everything, on lines of their own: a file's name in `#line`, and the texts of
warnings and assertions, hold line breaks. So signals are believed only where no source can have had them named. Where
one has ended a program of g++'s, that says so with the name of what it started; so it is given something to start
whose name no source can know (`run_compiler`). Of want of memory and of room a compiler speaks itself, after the last
error: one that reached its errors names them after what a source had it say, and counts them at the end.

A program that is killed may leave a line half written, as `as` does where it begins to name a file. Words about its
end then go on in that line, so they count wherever in a line they stand.
"""

import dataclasses
import re
import secrets
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from evaluator.errors import JobKilledError
from evaluator.sandbox.retry import MAX_TRIES, OWN_FAULTS, foreign, job_killed, killed_from_outside, signals_of
from evaluator.sandbox.sandbox import Job, JobResult, Sandbox
from evaluator.stages.compile import diagnostics
from evaluator.stages.compile.toolchain import Toolchain

# Where a message begins, and not in a text or a line of the source that it quotes.
_BROKE_DOWN: Final = re.compile(
    r"^(?:\S[^\n]*?(?:\(\d+\)|:\d+(?::\d+)?): |[\w+./-]+: |(?:ptxas|nvcc) [^\n]*)?internal (?:compiler )?error\b",
    re.IGNORECASE | re.MULTILINE,
)

_NO_MEMORY: Final = re.compile(
    r"virtual memory exhausted|out of memory|memory allocation failure|std::bad_alloc|cannot allocate memory",
    re.IGNORECASE,
)

_SCRIPT: Final = b'#!/bin/sh\nexec "$@"\n'
"""Becomes the program that g++ wants to start, so that signals to the one are signals to the other."""
_NAME_BYTES: Final = 16
"""Of randomness: nobody guesses it."""

_COLLECT2: Final = re.compile(r"collect2[\w.-]{0,50}: (?:fatal )?error: (?:(?!collect2)[^\n])*$", re.MULTILINE)
_OLD_NVCC: Final = re.compile(
    r"nvcc error\s*: '[^'\n]*' died due to signal (\d+)(?: \([\w ]+\))?[ \t]*$", re.MULTILINE
)
_CLANG: Final = re.compile(r"clang[\w+./-]{0,50}: error: unable to execute command: [^\n]*$", re.MULTILINE)
_CLANG_EXIT: Final = 254
"""How clang's driver ends when a signal ended a program of its own, and at no other time."""
_COMMON_EXITS: Final = frozenset({1, 2, 4})
"""How compilers end that refuse a source. As numbers of signals they say nothing."""
_FRONT_ENDS_EXIT: Final = 4
_TERMINATED: Final = re.compile(r"(?:^|\n)(?P<before>[^\n]*)\n*Compilation terminated\.\s*$")
"""What cudafe++ and cicc say last when they are asked to end; where errors end them, they count those just before."""
_DRIVERS_LINE: Final = re.compile(
    r"[\w+./-]+: (?:fatal error|internal compiler error): [\w ]+ signal terminated program \S+"
    r"|nvcc error\s*: '[^'\n]*' died due to signal \d+ ?(?:\([\w ]+\))?"
    # nvcc asks g++ of itself before it reads the source.
    r"|nvcc fatal\s*: (?:Failed to preprocess host compiler properties|Host compiler targets unsupported OS)\."
    r"|cc1plus: fatal error: [\w./-]+: No such file or directory"
    r"|[Cc]ompilation terminated\.|Please (?:submit|include) [^\n]*|See <[^>\n]*> for instructions\.|[A-Z][\w ]+"
)


@dataclass(frozen=True)
class CompilerRun(JobResult):
    """How a compiler ended, with what g++ was given to start."""

    witness: str = ""
    """Its name; empty where g++ was not run, or is not the host compiler."""
    linked: bool = False
    """Whether it was to link, and nothing else."""


def run_compiler(sandbox: Sandbox, job: Job, toolchain: Toolchain) -> CompilerRun:
    """As `sandbox.run`, of a job whose program is nvcc, ptxas or the host compiler of `toolchain`."""
    program, *arguments = job.argv
    name, flags = f"start-{secrets.token_hex(_NAME_BYTES)}", tuple[str, ...]()
    if "clang" not in toolchain.host_compiler_version.lower():
        if program == str(toolchain.nvcc):
            flags = ("-Xcompiler", f"-wrapper,./{name}")
        elif program == str(toolchain.host_compiler):
            flags = ("-wrapper", f"./{name}")
    if flags:
        job = dataclasses.replace(job, argv=(program, *flags, *arguments), files={**job.files, name: _SCRIPT})
    run = sandbox.run(job)
    given = {field.name: getattr(run, field.name) for field in dataclasses.fields(JobResult)}
    linked = program == str(toolchain.host_compiler) and not any(one.endswith((".cpp", ".cu")) for one in arguments)
    return CompilerRun(**given, witness=name if flags else "", linked=linked)


def signals_told(run: JobResult) -> frozenset[int]:
    """The signals that ended the compiler or one of its programs, by its exit and by words that no source causes."""
    by_exit = signals_of(run)
    if by_exit or run.exit_code == 0:
        return by_exit
    words = run.stderr.decode(errors="replace")
    witness = run.witness if isinstance(run, CompilerRun) else ""
    if witness:
        ends = re.escape(f" signal terminated program ./{witness}")
        if told := re.findall(rf": ((?:fatal error|internal compiler error): [\w /-]+{ends})$", words, re.M):
            return signals_of(run, f"g++: {told[-1]}")
    if isinstance(run, CompilerRun) and run.linked:
        # A linker that ends by itself, or is ended, is spoken of after all that it has said.
        return signals_of(run, next(reversed(_COLLECT2.findall(words)), ""))
    if run.exit_code == _CLANG_EXIT:
        return signals_of(run, next(reversed(_CLANG.findall(words)), ""))
    for number in _OLD_NVCC.findall(words)[-1:]:
        if int(number) == run.exit_code and run.exit_code not in _COMMON_EXITS:
            return frozenset({run.exit_code})
    if run.exit_code == _FRONT_ENDS_EXIT and (ended := _TERMINATED.search(words)):
        counted = " detected in the compilation of " in ended["before"]
        return frozenset() if counted else frozenset({int(signal.SIGTERM)})
    # What a source has a compiler say begins with the name of a file, or ends with the place in it.
    lines = [line.rstrip() for line in words.split("\n") if line.strip()]
    return signals_of(run, words) if all(map(_DRIVERS_LINE.fullmatch, lines)) else frozenset()


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
