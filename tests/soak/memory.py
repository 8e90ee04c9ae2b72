"""Memory that runs out for all processes of a set-up, so that the kernel kills one of them."""

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from processes import READY_S, until

V1 = Path("/sys/fs/cgroup/memory")
V2 = Path("/sys/fs/cgroup")
LIMIT_BYTES = 3 << 29
# A file in memory, of which nobody can be relieved by being killed: so the kernel kills others, until one was enough.
_TAKE = """
import sys, tempfile
counter, most_bytes = sys.argv[1], int(sys.argv[2])
def kills():
    with open(counter) as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
before, block = kills(), b"x" * (1 << 22)
with tempfile.TemporaryFile(dir="/dev/shm", buffering=0) as file:
    while kills() == before and file.tell() < most_bytes:
        file.write(block)
"""


class ControlGroup:
    """A control group of memory, of version 1 or 2, with a limit for all that is in it together."""

    def __init__(self, path, limit_bytes=LIMIT_BYTES):
        self._path, self._limit_bytes = Path(path), limit_bytes
        self._is_v1 = V1 in self._path.parents
        self._counter = self._path / ("memory.oom_control" if self._is_v1 else "memory.events")

    @staticmethod
    def made(limit_bytes=LIMIT_BYTES):
        """One of its own; None where this user may make none."""
        root = V1 if (V1 / "memory.limit_in_bytes").exists() else V2
        try:
            group = ControlGroup(tempfile.mkdtemp(prefix="assay-soak-", dir=root), limit_bytes)
            group.bound()
        except OSError:
            return None
        return group

    def bound(self):
        name = "memory.limit_in_bytes" if self._is_v1 else "memory.max"
        (self._path / name).write_text(str(self._limit_bytes))

    def take_in(self, pid):
        (self._path / "cgroup.procs").write_text(str(pid))

    def run_out(self, chance=None):
        """The kernel kills one of the processes; how many it has killed."""
        before = self.kills()
        program = [sys.executable, "-I", "-S", "-c", _TAKE, str(self._counter), str(self._limit_bytes)]
        subprocess.run(program, check=False, preexec_fn=lambda: self.take_in(os.getpid()))
        return self.kills() - before

    def kills(self):
        lines = self._counter.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    def remove(self):
        """Once all that was in it has ended, which the kernel may notice a little later."""

        def gone():
            with contextlib.suppress(OSError):
                self._path.rmdir()
            return not self._path.exists()

        until(gone, READY_S, "nothing is left in the control group")


@contextlib.contextmanager
def bounded(path, room_bytes):
    """A control group of others, which for a while may hold only so much more than it holds now."""
    is_v1 = V1 in Path(path).parents
    limit = Path(path, "memory.limit_in_bytes" if is_v1 else "memory.max")
    used = Path(path, "memory.usage_in_bytes" if is_v1 else "memory.current")
    before, limit_bytes = limit.read_text(), int(used.read_text()) + room_bytes
    group = ControlGroup(path, limit_bytes)
    group.bound()
    try:
        yield group
    finally:
        limit.write_text("-1" if is_v1 else before)
