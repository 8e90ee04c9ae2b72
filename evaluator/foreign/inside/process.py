"""What the sandbox starts: a zygote. It imports PyTorch once, and forks a clean process for each file.

A message from the referee is the lengths of a JSON text and of what follows it (8 bytes each, little-endian), then
both. `{"order": "begin", …}` brings a file; what comes after it is passed on to the process of that file, and what
that answers to stdout; `{"order": "end"}` brings secret bytes, which are sent back once that process and all that
it started are gone, nothing of it is left and nothing around it changed. Where anything is, this process ends; where
the file's ended by itself, it ends in the same way.

A message with `late_s`, a time of the clock CLOCK_MONOTONIC, and a `tag` is one that should be answered by then. At
that time this process writes to stderr what of the file is under way (`STAGE`): a line with the tag in front.

The file's process cannot get at the secret: it reads from a pipe of its own, and this process, which has the
descriptor of stdin, is not dumpable, so that nobody but root may look into it. So who sends it back is this process.
Nor has it stdout: the flags of an open file (O_NONBLOCK) are shared by all who have it, and outlive who set them.
"""

import array
import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import math
import os
import platform
import resource
import select
import signal
import struct
import sys
import termios
import time
import traceback
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final, NoReturn

from evaluator.foreign.inside.refusals import STAGE

_SPARED: Final = "torch._meta_registrations"
"""Operators on tensors without contents, written in Python: a fifth of the time of `import torch`. With them nearly
every file would import the compiler too, 1 s: they begin by keeping it out."""
_IMPORT_IT: Final = ("torch._decomp", "torch._refs")
"""What imports it, and is imported by it."""
_PR_SET_DUMPABLE: Final = 4
_PR_SET_CHILD_SUBREAPER: Final = 36
_PIECE_BYTES: Final = 1 << 20
_FILE: Final = "reference.py"
_SAID: Final = "said"
"""The file that holds what a file's process prints, which the next one's callers are not to see."""
_LAST_WORDS_BYTES: Final = 1 << 12
_LEAVE_MS: Final = 2000
"""How long a file's process may take to end once it is asked nothing more."""

NO_PROCESS: Final = 71
"""The exit code where the machine let no process be started for a file (EX_OSERR of sysexits.h); a file's own process
that ends with it is reported with another."""
_FORK_S: Final = 2.0
"""How long that is tried: a machine that is full of processes for a moment is no reason to give up."""

STEPPED_BACK: Final = 5
"""The niceness that the sandbox gives a job that has used some processor time, at any moment (warden.STEP_BACK)."""
_FOLDERS: Final = (".", "/tmp", "/dev/shm")
_TEXTS: Final = ("oom_score_adj", "timerslack_ns", "coredump_filter")
"""Files in /proc/self, which a sandbox may hide from everyone."""
_STATES: Final = ("Cpus_allowed", "Mems_allowed", "SigBlk", "SigIgn", "SigCgt", "Umask", "NSsid", "NSpgid")
"""Lines of /proc/self/status."""
_LIMITS: Final = range(16)
"""All resources of setrlimit."""
_SCHED_GETATTR: Final = {"x86_64": 315, "aarch64": 275}
_IOPRIO_GET: Final = {"x86_64": 252, "aarch64": 31}
_IOPRIO_WHO_PROCESS: Final = 1
_ATTRIBUTES_BYTES: Final = 56
"""Of `struct sched_attr` with the clamps of the processor's frequency."""
_NICENESS_AT: Final = slice(16, 20)
_FS_IOC_GETFLAGS: Final = 0x80086601


class _ImportsInOrder(MetaPathFinder, Loader):
    """Begins a circle of imports where `import torch` does, at `_SPARED`: begun elsewhere it fails.

    Much of PyTorch imports these once it is used: vmap, grad, checkpoints, operators of one's own, the compiler.
    """

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in _IMPORT_IT and _SPARED not in sys.modules else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        importlib.import_module(_SPARED)
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """It was carried out by the import of `_SPARED`."""


def _import_torch() -> None:
    sys.modules[_SPARED] = ModuleType(_SPARED)
    try:
        import torch
    finally:
        del sys.modules[_SPARED]  # who imports it later has it whole
    sys.meta_path.insert(0, _ImportsInOrder())
    with contextlib.suppress(ImportError):
        # Some versions set the type of generators there, and without it make none.
        import torch._prims.rng_prims  # noqa: F401


class _Condition:
    """What a file's process may change outside itself, and others' would inherit or find: how the zygote
    is scheduled and limited, and the folders that all of them write to. As it is when this is made, in this thread.

    No process can change another's memory, environment, umask, folder or signal handlers without tracing it.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None)
        # Of a folder that others use too nothing can be said.
        self._folders = {folder: _folder(folder) for folder in _FOLDERS if _entries(folder) == []}
        self._process = self._scheduled(), _limited()
        self._niceness = _niceness()

    def still_holds(self) -> bool:
        """Whether nothing has been changed, and nothing is in the folders. What cannot be found out is no."""
        for folder, facts in self._folders.items():
            if _entries(folder) != [] or _folder(folder) != facts:
                return False
        nicer = zip(_niceness(), self._niceness, strict=True)
        lets_go_first = any(now > max(before, STEPPED_BACK) for now, before in nicer)
        return not lets_go_first and self._process == (self._scheduled(), _limited())

    def _scheduled(self) -> tuple[Any, ...]:
        attributes = bytearray(_ATTRIBUTES_BYTES)
        machine = platform.machine()
        if machine in _SCHED_GETATTR:
            place = (ctypes.c_char * len(attributes)).from_buffer(attributes)
            self._libc.syscall(_SCHED_GETATTR[machine], 0, place, len(attributes), 0)
            attributes[_NICENESS_AT] = bytes(4)
        io = self._libc.syscall(_IOPRIO_GET[machine], _IOPRIO_WHO_PROCESS, 0) if machine in _IOPRIO_GET else 0
        policy, priority = os.sched_getscheduler(0), os.sched_getparam(0).sched_priority
        return bytes(attributes), io, policy, priority, frozenset(os.sched_getaffinity(0))


class _Zygote:
    """Serves one file after another, each by a process of its own."""

    def __init__(self, processors: int, most_bytes: int, most_output_bytes: int) -> None:
        self._processors, self._most_bytes, self._most_output_bytes = processors, most_bytes, most_output_bytes
        self._libc = ctypes.CDLL(None)
        self._libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._condition = _Condition()
        self._child = self._ended = self._to_child = self._answers = self._said = -1
        self._late_s, self._tag = math.inf, ""

    def serve(self) -> None:
        """Until stdin ends."""
        while lengths := self._next_lengths():
            length, size = struct.unpack("<QQ", lengths)
            encoded = _read(length)
            message = json.loads(encoded)
            if message.get("order") == "begin":
                self._begin(message["form"], _read(size))
            elif message.get("order") == "end":
                self._end(_read(size))
            else:
                self._late_s, self._tag = message.get("late_s", math.inf), message.get("tag", "")
                self._pass_on(lengths + encoded, size)

    def _next_lengths(self) -> bytes:
        """Those of the next message; passes on answers until it comes."""
        poller = select.poll()
        poller.register(0, select.POLLIN)
        if self._ended >= 0:
            poller.register(self._ended, select.POLLIN)
            poller.register(self._answers, select.POLLIN)
        while True:
            left_s = self._late_s - time.monotonic()
            ready = dict(poller.poll(None if left_s == math.inf else max(0.0, left_s) * 1000))
            if not ready:
                if time.monotonic() >= self._late_s:
                    self._say_what_is_under_way()
                continue
            if self._ended in ready:
                self._end_as_the_child()
            if ready.get(self._answers, 0) & select.POLLIN:
                os.splice(self._answers, 1, _PIECE_BYTES)  # without a copy: they may be hundreds of MB
            elif self._answers in ready:  # it has closed them, and would wake us for ever
                poller.unregister(self._answers)
            elif 0 in ready:
                self._late_s = math.inf
                return _read(16)

    def _say_what_is_under_way(self) -> None:
        """Once of each message. It may be answered already: nobody asks for the line then."""
        self._late_s = math.inf
        stage = bytes(byte for byte in STAGE[:] if byte >= 0x20)
        _write(2, f"{self._tag} ".encode() + stage + b"\n")

    def _begin(self, form: str, text: bytes) -> None:
        exclusive = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(_FILE, os.O_WRONLY | exclusive, 0o600), "wb") as file:
            file.write(text)
        self._said = os.open(_SAID, os.O_RDWR | exclusive, 0o600)
        STAGE[:] = bytes(len(STAGE))
        reading, self._to_child = os.pipe()
        self._answers, sink = os.pipe()
        with contextlib.suppress(OSError):  # beyond the user's share of pipe memory it stays small, and works
            fcntl.fcntl(sink, fcntl.F_SETPIPE_SZ, _PIECE_BYTES)
        self._child = _forked()
        if self._child == 0:
            try:
                self._be_the_child(form, text, reading, sink)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(1)
        os.close(reading)
        os.close(sink)
        self._ended = os.pidfd_open(self._child)

    def _be_the_child(self, form: str, text: bytes, reading: int, sink: int) -> None:
        """The file's own prints go where nobody else sees them, and it finds nothing on stdin."""
        os.close(self._to_child)
        os.close(self._answers)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(self._said, 1)
        os.dup2(self._said, 2)
        os.close(self._said)
        self._libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # so that the sandbox can count what it holds
        import torch

        from evaluator.foreign.inside.serving import serve_reference

        torch.set_num_threads(self._processors)
        with os.fdopen(reading, "rb") as source, os.fdopen(sink, "wb") as answers:
            serve_reference(
                source, answers, text.decode("utf-8-sig"), self._most_bytes, self._most_output_bytes, form
            )

    def _pass_on(self, head: bytes, size: int) -> None:
        try:
            _write(self._to_child, head)
            while size:
                piece = _read(min(size, _PIECE_BYTES))
                _write(self._to_child, piece)
                size -= len(piece)
        except BrokenPipeError:
            self._end_as_the_child()

    def _end(self, secret: bytes) -> None:
        os.close(self._to_child)
        poller = select.poll()
        poller.register(self._ended, select.POLLIN)
        if not poller.poll(_LEAVE_MS) or os.waitpid(self._child, 0)[1] != 0:
            os._exit(0)
        with contextlib.suppress(ChildProcessError):
            while True:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:  # it left a process that still runs
                    os._exit(0)
        os.set_blocking(self._answers, False)
        if os.read(self._answers, 1):
            os._exit(0)
        for descriptor in (self._ended, self._answers, self._said):
            os.close(descriptor)
        self._child = self._ended = self._to_child = self._answers = self._said = -1
        for name in (_FILE, _SAID):
            os.unlink(name)
        if not self._condition.still_holds():
            os._exit(0)
        _write(1, secret)

    def _end_as_the_child(self) -> NoReturn:
        _, status = os.waitpid(self._child, 0)
        unsent = array.array("i", [0])
        fcntl.ioctl(self._answers, termios.FIONREAD, unsent)
        while unsent[0] > 0:
            unsent[0] -= os.splice(self._answers, 1, unsent[0])
        size = os.fstat(self._said).st_size
        _write(2, os.pread(self._said, _LAST_WORDS_BYTES, max(0, size - _LAST_WORDS_BYTES)))
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            with contextlib.suppress(OSError):  # SIGKILL has its default already
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        os._exit(1 if code == NO_PROCESS else max(0, code))


def _forked() -> int:
    """As `os.fork`; ends this process where there is none to be had."""
    until_s = time.monotonic() + _FORK_S
    while True:
        try:
            return os.fork()
        except OSError:
            if time.monotonic() >= until_s:
                os._exit(NO_PROCESS)
            time.sleep(0.05)


def _niceness() -> tuple[int, int]:
    """The process's, and its session's, which counts where the kernel shares out the processor by sessions."""
    session = (_text("autogroup") or "0").split()[-1]
    return os.getpriority(os.PRIO_PROCESS, 0), int(session)


def _limited() -> tuple[Any, ...]:
    states = [line for line in (_text("status") or "").splitlines() if line.partition(":")[0] in _STATES]
    return tuple(map(resource.getrlimit, _LIMITS)), tuple(states), tuple(map(_text, _TEXTS))


def _text(name: str) -> str | None:
    try:
        with open(f"/proc/self/{name}") as file:
            return file.read()
    except OSError:
        return None


def _entries(folder: str) -> list[str] | None:
    """None where they cannot be listed."""
    try:
        return os.listdir(folder)
    except OSError:
        return None


def _folder(folder: str) -> tuple[Any, ...]:
    """All of a folder that is neither its entries nor its times."""
    try:
        found = os.stat(folder)
        names = _extended(folder)
        values = [os.getxattr(folder, name) for name in names]
        return found.st_mode, found.st_uid, found.st_gid, found.st_dev, found.st_ino, names, values, _flags(folder)
    except OSError as error:
        return (error.errno,)


def _extended(folder: str) -> list[str]:
    with contextlib.suppress(OSError):  # not every file system has them
        return sorted(os.listxattr(folder))
    return []


def _flags(folder: str) -> int:
    """As chattr sets them."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return int(struct.unpack("i4x", fcntl.ioctl(descriptor, _FS_IOC_GETFLAGS, bytes(8)))[0])
    except OSError:  # not every file system has them
        return 0
    finally:
        os.close(descriptor)


def _read(size: int) -> bytes:
    """So many bytes of stdin, fewer where it ends."""
    read = bytearray()
    while len(read) < size and (piece := os.read(0, min(size - len(read), _PIECE_BYTES))):
        read += piece
    return bytes(read)


def _write(descriptor: int, data: bytes) -> None:
    rest: Any = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def main() -> None:
    """Import what every file needs, then serve."""
    _import_torch()
    import evaluator.foreign.inside.serving  # noqa: F401

    gc.collect()
    gc.freeze()  # or a collection in each child would copy all of it
    processors, most_bytes, most_output_bytes = map(int, sys.argv[1:4])
    _Zygote(processors, most_bytes, most_output_bytes).serve()


if __name__ == "__main__":
    main()
