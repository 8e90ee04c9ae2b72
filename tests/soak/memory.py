"""Memory that runs out for all processes of a set-up, so that the kernel kills one of them."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

V1 = Path("/sys/fs/cgroup/memory")
V2 = Path("/sys/fs/cgroup")
LIMIT_BYTES = 2 << 30
# It takes memory until the kernel has killed somebody, and not it.
_TAKE = """
import sys, time
counter, most_bytes = sys.argv[1], int(sys.argv[2])
def kills():
    with open(counter) as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
before, taken = kills(), []
while kills() == before and len(taken) << 23 < most_bytes:
    taken.append(b"x" * (1 << 23))
"""


class ControlGroup:
    """A control group of memory, of version 1 or 2, with a limit for all that is in it together."""

    def __init__(self, path, limit_bytes=LIMIT_BYTES):
        self._path, self._limit_bytes = Path(path), limit_bytes
        self._is_v1 = V1 in self._path.parents
        self._counter = self._path / ("memory.oom_control" if self._is_v1 else "memory.events")

    @staticmethod
    def made():
        """One of its own; None where this user may make none."""
        root = V1 if (V1 / "memory.limit_in_bytes").exists() else V2
        try:
            group = ControlGroup(tempfile.mkdtemp(prefix="assay-soak-", dir=root))
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
        with subprocess.Popen(program, stdin=subprocess.PIPE, preexec_fn=self._enter_and_stay):
            pass
        return self.kills() - before

    def _enter_and_stay(self):
        Path("/proc/self/oom_score_adj").write_text("-1000")
        self.take_in(os.getpid())

    def kills(self):
        lines = self._counter.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    def remove(self):
        self._path.rmdir()
