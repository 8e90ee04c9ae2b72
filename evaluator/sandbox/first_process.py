"""The first process of a docker sandbox's container: takes one order, has the warden see to it, and reports.

It is sent into the container as text (see docker.py), so that it always fits the grader and an image needs nothing of
ours but Python. Standard library and `warden` only. As process 1 of its container no job can kill it, and since it is
not dumpable none can read its memory, where the seal is that marks its report.

Protocol, over the container's own streams: the order (JSON after a length of four bytes), the job's files one after
another, and from then on stdin, stdout and stderr are the program's. When nothing of the job is left, the report
follows on stderr: the seal, JSON after a length of four bytes, and the files that the job was to leave; then the seal
on stdout, in a session only after the end of stdin, so that it never is taken for what the program said. SIGTERM ends
the job; so does the end of stdin, which says that the grader is gone.
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

from evaluator.sandbox import warden

PR_SET_DUMPABLE = 4
TALK_GRACE_S = 1.0
"""How long the program of a session may take to end by itself once its stdin is closed, if nobody orders its end."""


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
    child = warden.launch(order, (0 if order["talk"] else nothing, 1, 2), [])
    grace_s = TALK_GRACE_S if order["talk"] else 0.0
    threading.Thread(target=_end_with_stdin, args=(theirs, grace_s), daemon=True).start()
    ended = warden.supervise(order, child, ours, wakeup, -1)
    if ended["reason"] is None and _killed_for_memory():
        ended["reason"] = "memory"
    return ended


def _order_end(control: socket.socket) -> None:
    with contextlib.suppress(OSError):
        control.send(b"e")


def _end_with_stdin(control: socket.socket, grace_s: float) -> None:
    # Only the hang-up is asked for: what there is to read is the program's.
    poller = select.poll()
    poller.register(0, 0)
    poller.poll()
    time.sleep(grace_s)
    _order_end(control)


def _killed_for_memory() -> bool:
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        with contextlib.suppress(OSError), open(path) as events:
            return any(line.startswith("oom_kill ") and line.split()[1] != "0" for line in events)
    return False


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
