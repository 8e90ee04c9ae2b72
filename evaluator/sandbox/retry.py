"""Jobs that someone outside may have ended: what tells it, and another try in a fresh sandbox.

The signals that a program causes itself, in the instruction that it executes, say something about the program, and so
does a limit of ours that was measured to be met (`JobResult.own_signals`). Every other signal is someone else's: an
operator's, a supervisor's, a stray `kill`. What a job would have shown is then not known, so it is neither a verdict
nor anything to keep.
"""

import contextlib
import re
import signal
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from evaluator.errors import JobKilledError
from evaluator.sandbox.sandbox import Job, JobResult, Sandbox

Result = TypeVar("Result")

MAX_TRIES: Final = 3
"""With three, what is killed one time in ten is lost one time in a thousand; and one that always is ends soon."""
OWN_FAULTS: Final = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT})
"""Signals that the kernel sends for what an instruction did, and abort()."""

_NUMBERS: Final = {signal.strsignal(number): int(number) for number in signal.Signals if signal.strsignal(number)}
_NAMES: Final = "|".join(sorted((re.escape(name) for name in _NUMBERS if name), key=len, reverse=True))
# Names are bounded in length, since a source may have a line of a megabyte printed that is all names.
_TOLD: Final = re.compile(
    # nvcc, with the program in the words that it gives its shell, for example '"$CICC_PATH/cicc"'; and collect2.
    r"^(?:nvcc error\s*: '[^'\n]*' died due to|[\w+./-]{0,300}collect2[\w.-]{0,50}: [^\n]*\bterminated with)"
    r" signal (?P<number>\d+)"
    # g++, of cc1plus, as and collect2; clang.
    rf"|^[\w+./-]+: (?:fatal error|internal compiler error): (?P<driver>{_NAMES}) signal terminated program"
    rf"|^[\w+./-]{{0,300}}clang[\w+./-]{{0,50}}: error: unable to execute command: (?P<clang>{_NAMES})\b"
    # A shell: dash the name alone, bash after the program's number.
    rf"|^(?:[\w./-]+: (?:line \d+: )?\s*\d+ )?(?P<shell>{_NAMES})(?: \(core dumped\))?[ \t]*(?:$|[\"'/\w])",
    re.MULTILINE,
)
_MIN_SHELL_CODE: Final = 128


def signals_of(run: JobResult, words: str = "") -> frozenset[int]:
    """The signals that ended the program or one that it ran, by its exit; where that tells none, by `words`."""
    if run.signal is not None:
        return frozenset({int(run.signal)})
    # A shell in between ends with the number of the signal that ended its program, from 128 on.
    if run.exit_code is not None and run.exit_code - _MIN_SHELL_CODE in _NUMBERS.values():
        return frozenset({run.exit_code - _MIN_SHELL_CODE})
    # The last one: a program that has ended says no more, but a source may have had it say such words before.
    for told in list(_TOLD.finditer(words))[-1:]:
        name = told["driver"] or told["clang"] or told["shell"]
        return frozenset({int(told["number"]) if told["number"] else _NUMBERS[name]})
    return frozenset()


def foreign(run: JobResult, told: frozenset[int] | None = None) -> signal.Signals | None:
    """The signal by which someone outside has ended the program or one that it ran; None where nobody has.

    `told`: the signals that ended them; those of the program's exit where None. What met a limit of ours was ended by
    us, with SIGKILL, whatever else it says.
    """
    if run.met_limit:
        return None
    found = sorted((signals_of(run) if told is None else told) - OWN_FAULTS - run.own_signals)
    return next((signal.Signals(number) for number in found if number in _NUMBERS.values()), None)


def tried(act: Callable[[], Result]) -> Result:
    """What `act()` gives; again, MAX_TRIES times in all, where it raises JobKilledError, which it then raises."""
    for _ in range(MAX_TRIES - 1):
        with contextlib.suppress(JobKilledError):
            return act()
    return act()


def in_tries(attempt: Callable[[], JobResult], told: Callable[[JobResult], frozenset[int]] = signals_of) -> JobResult:
    """What `attempt()` gives as soon as nobody outside ends it, by the signals that `told` finds.

    Raises JobKilledError after MAX_TRIES.
    """

    def once() -> JobResult:
        run = attempt()
        if by := foreign(run, told(run)):
            raise killed_from_outside(by)
        return run

    return tried(once)


def run_in_tries(sandbox: Sandbox, job: Job) -> JobResult:
    """As `sandbox.run(job)`, again where someone outside has ended the job. Raises JobKilledError after
    MAX_TRIES.
    """
    return in_tries(lambda: sandbox.run(job))


def killed_from_outside(by: signal.Signals) -> JobKilledError:
    """The fault where that went on happening."""
    return job_killed(f"A job was killed from outside {MAX_TRIES} times, lastly by {by.name}.")


def job_killed(message: str) -> JobKilledError:
    """The fault where someone outside ended a process of ours, told by `message`."""
    return JobKilledError(
        message, "Find out who sends signals to the processes of this machine, and submit it again."
    )


def run_program(command: Sequence[Any], **options: Any) -> "subprocess.CompletedProcess[Any]":
    """As `subprocess.run`, for a program of ours, again where someone outside has ended it.

    Raises JobKilledError after MAX_TRIES, and what `subprocess.run` raises.
    """
    ours = OWN_FAULTS | set(options.pop("own_signals", ()))

    def once() -> "subprocess.CompletedProcess[Any]":
        done = subprocess.run(command, **options, check=False)
        number = -done.returncode if done.returncode < 0 else done.returncode - _MIN_SHELL_CODE
        if number in _NUMBERS.values() and number not in ours:
            raise killed_from_outside(signal.Signals(number))
        return done

    return tried(once)
