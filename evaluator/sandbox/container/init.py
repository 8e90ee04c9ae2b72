"""The first process of a docker sandbox's container: takes one order, has the warden see to it, and reports.

It is sent into the container as text (see docker.py), so that it always fits the grader and an image needs nothing of
ours but Python. Standard library and `warden` only. As process 1 of its container no job can kill it, and since it is
not dumpable none can read its memory, where the seal is that marks its report.

Protocol, over the container's own streams: the order (JSON after a length of four bytes), the job's files one after
another, and from then on stdin, stdout and stderr are the program's; a mark on stderr says that it was started (some
of what it wrote may come before). When nothing of the job is left, the report follows on stderr: the seal, JSON after
a length of four bytes, and the files that the job was to leave; then the seal on stdout, in a session only after the
end of stdin, so that it never is taken for what the program said. SIGTERM ends the job; so does the end of stdin,
which says that the grader is gone.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import stat
import threading
import time
from typing import Any

from evaluator.sandbox.host import warden
from evaluator.sandbox.host.held_memory import HeldMemory

PR_SET_DUMPABLE = 4
TALK_GRACE_S = 1.0
"""How long the program of a session may take to end by itself once its stdin is closed, if nobody orders its end."""
WATCH_INTERVAL_MS = 25


def serve(idle_s: float) -> None:
    """Wait at most `idle_s` for the order, and carry it out."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    if not select.select([0], [], [], idle_s)[0]:
        return
    header = _exactly(4)
    text = header and _exactly(int.from_bytes(header, "big"))
    if not text:
        return
    order = json.loads(text)
    files: dict[str, bytes] = {}
    try:
        folder = os.open(order["folder"], os.O_RDONLY | os.O_DIRECTORY)
        for name, size_bytes in order["files"]:
            content = _exactly(size_bytes)
            if content is None:
                return  # the grader is gone
            with open(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700, dir_fd=folder), "wb") as file:
                file.write(content)
        missing = [path for path in order["readable"] if not os.path.exists(path)]
        if missing:
            report: dict[str, Any] = {"missing": missing}
        else:
            report = {"ended": _carry_out(order)}
            files = _collect(order["collect"], order["file_bytes"], folder)
    except OSError as error:
        report = {"failed": error.strerror, "errno": error.errno}
    report["files"] = [(name, len(content)) for name, content in files.items()]
    text = json.dumps(report).encode()
    seal = bytes.fromhex(order["seal"])
    for part in (seal, len(text).to_bytes(4, "big"), text, *files.values()):
        _write(2, part)
    while order["talk"] and os.read(0, 1 << 20):
        pass
    _write(1, seal)


def _exactly(size_bytes: int) -> bytes | None:
    # Unbuffered: what comes after belongs to the program.
    pieces = []
    while size_bytes:
        piece = os.read(0, min(size_bytes, 1 << 20))
        if not piece:
            return None
        pieces.append(piece)
        size_bytes -= len(piece)
    return b"".join(pieces)


def _write(stream: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(stream, rest) :]


def _carry_out(order: dict[str, Any]) -> dict[str, Any]:
    wakeup = warden.wake_on_children()
    ours, theirs = socket.socketpair()
    signal.signal(signal.SIGTERM, lambda *_: _order_end(theirs))
    nothing = os.open("/dev/null", os.O_RDONLY)
    grace_s = TALK_GRACE_S if order["talk"] else 0.0
    # Before the program: it could leave no room for a thread.
    threading.Thread(target=_watch, args=(theirs, grace_s), daemon=True).start()
    memory = HeldMemory(order)
    child = warden.launch(order, (0 if order["talk"] else nothing, 1, 2), [])
    _write(2, bytes.fromhex(order["begun"]))
    ended = warden.supervise(order, child, memory, ours, wakeup, -1)
    if ended["reason"] in (None, "ordered"):
        ended["reason"] = _kernel_limit(ended["memory_full"]) or ended["reason"]
    return ended


def _order_end(control: socket.socket) -> None:
    with contextlib.suppress(OSError):
        control.send(b"e")


def _watch(control: socket.socket, grace_s: float) -> None:
    """End the job when the grader is gone or the kernel has enforced a limit of the container."""
    # Only the hang-up is asked for: what there is to read is the program's.
    poller = select.poll()
    poller.register(0, 0)
    while not poller.poll(WATCH_INTERVAL_MS):
        if _kernel_limit(memory_full=True):
            break
    else:
        time.sleep(grace_s)
    _order_end(control)


# What the kernel counts of its own interventions in this container, with control groups of version 2 and 1. That it
# killed for want of memory says nothing of the container's own limit: others may have taken the machine's.
_COUNTERS = (
    ("memory", "oom", "/sys/fs/cgroup/memory.events"),
    ("memory", "oom_kill", "/sys/fs/cgroup/memory/memory.oom_control"),
    ("processes", "max", "/sys/fs/cgroup/pids.events"),
    ("processes", "max", "/sys/fs/cgroup/pids/pids.events"),
)
_OF_WHOMEVER = "/sys/fs/cgroup/memory/memory.oom_control"
"""Version 1 counts kills for whosever limit it was, and times at which this one was met (`memory.failcnt`) also where
all that had filled it was a cache, which can be given up. So there it is for the memory that the job had to say."""


def _kernel_limit(memory_full: bool) -> str | None:
    """The limit at which the kernel has killed a process or refused one, if it has.

    `memory_full`: whether the job had all the memory that it may have.
    """
    for limit, name, path in _COUNTERS:
        with contextlib.suppress(OSError), open(path) as events:
            met = any(line.split()[0] == name and line.split()[1] != "0" for line in events)
            if met and (path != _OF_WHOMEVER or memory_full):
                return limit
    return None


def _collect(names: list[str], file_bytes: int, folder: int) -> dict[str, bytes]:
    found = {}
    for name in names:
        with contextlib.suppress(OSError):
            # O_NONBLOCK: opening a fifo must not wait for someone to write into it.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            with open(os.open(name, flags, dir_fd=folder), "rb") as file:
                status = os.fstat(file.fileno())
                if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_size <= file_bytes:
                    found[name] = file.read(file_bytes)
    return found
