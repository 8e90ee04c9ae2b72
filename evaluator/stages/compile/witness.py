"""Who says that a compiler was killed: g++ itself, and not a text that the source has put into its messages.

A source can have a compiler or an assembler print nearly any line. Where a signal has ended a program of g++'s, that
says so with the name of what it started; so it is given something to start whose name no source can know.
"""

import dataclasses
import re
import secrets
import signal
from dataclasses import dataclass
from typing import Final

from evaluator.sandbox.retry import signals_of
from evaluator.sandbox.sandbox import Job, JobResult, Sandbox
from evaluator.stages.compile.toolchain import Toolchain

_SCRIPT: Final = b'#!/bin/sh\nexec "$@"\n'
"""Becomes the program that g++ wants to start, so that signals to the one are signals to the other."""
_NAME_BYTES: Final = 16
"""Of randomness: nobody guesses it."""

_COLLECT2: Final = re.compile(r"^[\w+./-]*collect2[\w.-]*: (?:fatal )?error: [^\n]*$", re.MULTILINE)
_OLD_NVCC: Final = re.compile(
    r"^nvcc error\s*: '[^'\n]*' died due to signal (\d+)(?: \([\w ]+\))?[ \t]*$", re.MULTILINE
)
_CLANG: Final = re.compile(r"^[\w+./-]*clang[\w+./-]*: error: unable to execute command: [^\n]*$", re.MULTILINE)
_CLANG_EXIT: Final = 254
"""How clang's driver ends when a signal ended a program of its own, and at no other time."""
_COMMON_EXITS: Final = frozenset({1, 2, 4})
"""How compilers end that refuse a source. As numbers of signals they say nothing."""
_FRONT_ENDS_EXIT: Final = 4
_TERMINATED: Final = re.compile(r"(?:^|\n)(?P<before>[^\n]*)\n+Compilation terminated\.\s*$")
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
        if told := re.findall(rf"^[\w+./-]+: (?:fatal error|internal compiler error): [^\n]*{ends}$", words, re.M):
            return signals_of(run, told[-1])
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
