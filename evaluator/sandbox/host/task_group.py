"""A control group that bounds how many processes and threads a job has, from before its program starts.

The warden's watch counts every 20 ms, which is too late for a program that forks without end: root's processes are
counted by nothing else, and such a program fills the machine between two looks. The kernel's own controller
(https://docs.kernel.org/admin-guide/cgroup-v2.html#pid, of version 1 `cgroup-v1/pids.html`) refuses the fork itself.
"""

import contextlib
import os
import secrets
import time
from pathlib import Path
from typing import Final, Self

from evaluator.errors import SandboxError

_ROOT: Final = Path("/sys/fs/cgroup")
_OWN_TASKS: Final = 8
"""Of the group beside the job's: what makes its namespaces (bubblewrap has two processes), and a margin."""
_EMPTY_S: Final = 2.0
"""How long the kernel may take to let go of a group whose processes have ended; then the next one removes it."""
_SETTLED_S: Final = 60.0
"""Younger groups are left alone: their makers may be about to start a job."""


class TaskGroup:
    """One such group. It is removed when it is closed, or by the next one made here after its maker has died."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def made(cls, tasks: int, root: Path = _ROOT) -> Self | None:
        """A new group of at most so many tasks; None where this process cannot make one."""
        for parent in _parents(root):
            _remove_stale(parent)
            folder = parent / f"assay-{os.getpid()}-{secrets.token_hex(6)}"
            try:
                folder.mkdir()
            except OSError:
                continue
            group = cls(folder)
            try:
                # Of version 2 a group has the file only where its parent gives the controller on.
                if (folder / "pids.max").exists():
                    (folder / "pids.max").write_text(str(tasks + _OWN_TASKS))
                    return group
            except OSError:
                pass
            group.close()
        return None

    @property
    def members(self) -> str:
        """The file into which a process writes 0 to become a member, with all that it starts from then on."""
        return str(self._folder / "cgroup.procs")

    @property
    def refused(self) -> int:
        """How often a member was refused another task."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            return int((self._folder / "pids.events").read_text().split()[1])
        return 0

    def close(self) -> None:
        """Remove the group, whose members have ended."""
        until_s = time.monotonic() + _EMPTY_S
        while time.monotonic() < until_s:
            try:
                self._folder.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.002)


def tasks_unbounded() -> SandboxError:
    """Why a job whose tasks must be bounded cannot run at all."""
    return SandboxError(
        "The kernel can neither count the processes of a job nor keep it from starting any.",
        "Let the grader make pids control groups (a writable /sys/fs/cgroup), or use a kernel with seccomp.",
    )


def _parents(root: Path) -> list[Path]:
    """Where a group may be made: below this process's own, of version 1 and of version 2, and above the latter."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    found: list[Path] = []
    for line in lines:
        _, controllers, own = line.split(":", 2)
        if controllers == "pids":
            found += [root / "pids" / own.lstrip("/"), root / "pids"]
        elif not controllers:
            place = root / own.lstrip("/")
            # A group with processes of its own gives no controller on: beside it or above is where one can be.
            found += [place, *place.parents]
    return [place for place in dict.fromkeys(found) if place.is_dir() and place.is_relative_to(root)]


def _remove_stale(parent: Path) -> None:
    """Remove the groups of graders that have died; one with members stays."""
    for folder in parent.glob("assay-*-*"):
        maker = folder.name.split("-")[1]
        with contextlib.suppress(OSError):
            # A maker in another namespace is not seen here; its group has members by then.
            old = time.time() - folder.stat().st_mtime > _SETTLED_S
            if old and maker.isdigit() and not Path(f"/proc/{maker}").exists():
                folder.rmdir()
