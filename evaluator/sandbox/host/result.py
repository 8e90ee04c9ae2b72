"""How a job ended, in the interface's words, from what its warden reports (`ended` in warden.py)."""

from collections.abc import Mapping
from typing import Any

from evaluator.errors import SandboxError
from evaluator.sandbox.host import warden
from evaluator.sandbox.sandbox import JobResult, Limits

_CPU_TIME, _FILE_SIZE = 24, 25  # SIGXCPU, SIGXFSZ


def limit_hit(limits: Limits, ended: Mapping[str, Any] | None, output_exceeded: bool) -> str | None:
    """The limit that ended the job, in words; None when none did, or when it has not ended."""
    if output_exceeded:
        return f"wrote more than {limits.output_bytes} bytes of output"
    if ended is None:
        return None
    by_reason = {
        "wall": f"ran longer than {limits.wall_s:g} s",
        "memory": f"took more than {limits.memory_bytes} bytes of memory",
        "processes": f"had more than {limits.processes} processes and threads at one time",
        "work": f"wrote more than {limits.work_bytes} bytes or {warden.WORK_ENTRIES} files",
    }
    by_signal = {
        _CPU_TIME: f"took more than {limits.cpu_s:g} s of CPU time",
        _FILE_SIZE: f"wrote a file larger than {limits.file_bytes} bytes",
    }
    ours = -ended["exit"] in ended["own_signals"]
    return by_reason.get(ended["reason"] or "") or (by_signal.get(-ended["exit"]) if ours else None)


def ended_in_words(ended: Mapping[str, Any] | None) -> str:
    """`ended (exit code 1)`, `ended (signal 9)` or `still runs`."""
    if ended is None:
        return "still runs"
    code = ended["exit"]
    return f"ended (exit code {code})" if code >= 0 else f"ended (signal {-code})"


def too_busy(wall_s: float, waited_s: float) -> SandboxError:
    """The fault where nothing can be said about a program, because it hardly ran."""
    return SandboxError(
        f"This machine is too busy: a job stood in line for a processor for {waited_s:.1f} of {wall_s:.1f} s.",
        "Try again when less runs on it; a service needs fewer workers.",
    )


def finished_from(
    limits: Limits,
    ended: Mapping[str, Any],
    *,
    stdout: bytes,
    stderr: bytes,
    files: Mapping[str, bytes],
    output_exceeded: bool,
) -> JobResult:
    """The result of a job whose exit is a code from 0 or the negative number of a signal.

    Raises SandboxError for one that this machine was too busy to give its time.
    """
    code, reason = int(ended["exit"]), ended["reason"]
    if ended["too_busy"]:
        raise too_busy(ended["wall_s"], ended["waited_s"])
    own_signals = frozenset(map(int, ended["own_signals"]))
    by_limit = -code if -code in own_signals else None
    full = code != 0 and ended["memory_full"]
    return JobResult(
        exit_code=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        stdout=stdout,
        stderr=stderr,
        files=files,
        wall_s=ended["wall_s"],
        waited_s=ended["waited_s"],
        own_signals=own_signals,
        timed_out=reason == "wall" or by_limit == _CPU_TIME,
        output_exceeded=output_exceeded or reason == "work" or by_limit == _FILE_SIZE,
        memory_exceeded=reason == "memory" or (reason is None and full),
        memory_taken=bool(ended["memory_taken"]),
        limit_hit=limit_hit(limits, ended, output_exceeded),
    )
