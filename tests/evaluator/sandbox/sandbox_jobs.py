"""Jobs to try a sandbox with, and ways to look at what is left of them."""

import contextlib
import sys
import textwrap
import time
from pathlib import Path

from evaluator.sandbox.sandbox import Job

PYTHON = tuple({Path(sys.prefix), Path(sys.base_prefix)})


def shell(script, *arguments, **settings):
    return Job(("/bin/sh", "-c", script, "sh", *arguments), **settings)


def python(sandbox, script, *arguments, **settings):
    command = ("-I", "-S", "-c", textwrap.dedent(script), *arguments)
    if sandbox.name == "docker":
        return Job((sandbox.interpreter, *command), **settings)
    return Job((sys.executable, *command), readable=PYTHON, **settings)


def running(mark):
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def soon(condition, patience_s=5.0):
    until = time.monotonic() + patience_s
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    return condition()
