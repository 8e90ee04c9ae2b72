"""Processes of this machine, by what they are: to be killed, and to be missed by nobody afterwards."""

import contextlib
import os
import signal
import time
from pathlib import Path

READY_S = 180.0
"""How long a process may take to be ready, on a machine that is busy."""


def until(true, timeout_s, what):
    """Wait until `true()` is; what it gave."""
    until_s = time.monotonic() + timeout_s
    while not (found := true()):
        assert time.monotonic() < until_s, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.02)
    return found


def start_of(pid):
    """When a process started, which tells it from a later one of its number; None when it is gone, or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def words_of(pid):
    """Its command line, as one text."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def inner_pid_of(pid):
    """Its number as its own container counts; None when it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    return next(int(line.split()[-1]) for line in status.splitlines() if line.startswith("NSpid:"))


def below(pid):
    """The living processes below `pid`."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                if start_of(child) is not None:
                    found += [child, *below(child)]
    return found


def kill(pid, number=signal.SIGKILL):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


class Census:
    """Every process that was ever seen below certain ones, to ask at the end which of them still live."""

    def __init__(self):
        self._seen = {}

    def take(self, roots):
        for root in roots:
            for pid in (root, *below(root)):
                self._seen.setdefault((pid, start_of(pid)), words_of(pid))

    def alive(self):
        return [words for (pid, start), words in self._seen.items() if start is not None and start_of(pid) == start]
