"""What a file's process may change outside itself, and later files' processes would inherit or find: how the zygote
is scheduled and limited, and the folders that all of them write to.

No process can change another's memory, environment, umask, working folder or signal handlers without tracing it.
"""

import contextlib
import ctypes
import fcntl
import os
import platform
import resource
import struct
from typing import Any, Final

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


class Condition:
    """As it is when this is made, in the zygote's own thread."""

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
