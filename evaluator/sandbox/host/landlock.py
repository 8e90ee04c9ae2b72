"""Landlock: what a process may open, change and signal, for sandboxes that have no namespaces.

A rule set is made in the grader, as a descriptor, and laid on the job by its warden just before the program starts.
Landlock restricts opening, making, removing, renaming and truncating files; not asking about them (`stat`, `access`,
`readlink`) and not changing their mode or owner, which the seccomp filter refuses instead.

Source: the kernel's `Documentation/userspace-api/landlock.rst` and `include/uapi/linux/landlock.h`.
"""

import ctypes
import functools
import os
import stat
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from evaluator.errors import SandboxError

CREATE_RULESET: Final = 444
ADD_RULE: Final = 445

CONFINES_WRITES: Final = 3
"""The first version that also keeps files from being truncated."""
CONFINES_SIGNALS: Final = 6
"""The first version that keeps processes outside from being signalled."""

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL_DEVICE = 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_RIGHTS_OF_VERSION = {1: 13, 2: 14, 3: 15, 4: 15}  # so many bits are known; 16 from version 5 on
_TCP = 0b11
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2

_READABLE = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache", "/etc/alternatives"),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/filesystems", "/proc/sys/vm/overcommit_memory"),
    "/sys/devices/system",
)
_HARMLESS_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


@functools.cache
def abi_version() -> int:
    """The version of Landlock that this kernel has; 0 where it has none or it is switched off."""
    found = ctypes.CDLL(None).syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    return max(0, int(found))


def confinement(folder: Path, readable: Iterable[Path], devices: bool) -> int:
    """A rule set, as a descriptor that the caller closes, for a job with this work folder.

    With `devices` files are left alone, because what a driver opens is not known, and only signals to processes
    outside are kept from the job. Raises SandboxError.
    """
    rights = (1 << _RIGHTS_OF_VERSION.get(abi_version(), 16)) - 1
    scoped = (_ABSTRACT_SOCKETS | _SIGNALS) if abi_version() >= CONFINES_SIGNALS else 0
    tcp = _TCP if abi_version() >= 4 else 0
    attributes = struct.pack("<QQQ", rights, tcp, scoped)
    if devices:
        attributes = struct.pack("<QQQ", 0, 0, _SIGNALS if scoped else 0)
    sizes = {1: 8, 2: 8, 3: 8, 4: 16, 5: 16}
    descriptor = _call(CREATE_RULESET, attributes, ctypes.c_size_t(sizes.get(abi_version(), 24)), 0)
    try:
        if not devices:
            for path in (*map(Path, _READABLE), *(path.resolve() for path in readable)):
                _allow(descriptor, path, _READ)
            for name in _HARMLESS_DEVICES:
                _allow(descriptor, Path(name), (_READ_FILE | _WRITE_FILE | _TRUNCATE) & rights)
            _allow(descriptor, folder, rights)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _OF_FILES
        _call(ADD_RULE, ruleset, 1, struct.pack("<Qi", rights, place), 0)
    finally:
        os.close(place)


def _call(number: int, *arguments: object) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    result = int(library.syscall(number, *arguments))
    if result < 0:
        reason = os.strerror(ctypes.get_errno())
        raise SandboxError(f"Landlock could not be set up: {reason}.", "Use the bubblewrap or the docker sandbox.")
    return result
