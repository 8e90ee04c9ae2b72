"""What memory the processes of a job hold, and whose fault it is where the kernel kills for want of it: looked up by
the warden (standard library only).

Pages that processes share are counted once. Memory that is in no page table counts too: what was written through a
shared mapping stays when its writer has ended or has let the pages go, and so does what is in files in memory. It is
nobody's resident memory, so the kernel would kill others for it first.
"""

import contextlib
import os
import time
from collections.abc import Iterable
from typing import Any

from evaluator.sandbox.host.process_tree import MappedFile, nameless_mappings, resident_bytes_of, rooms_in_memory

BLAMED_SHARE = 0.95
"""Of the memory that a job may have: what it has had where it is to blame that none is left; below that others took
it. Not all of it, since the watch sees a job only from time to time."""
_JOBS_SCORE = "1000"
"""What `warden` sets as `oom_score_adj` of every job."""
_MOST_OF_A_PROCESSOR = 0.05
"""That the exact figure may take where only the memory of others makes it necessary."""
_AT_LEAST_EVERY_S = 1.0


# ---- what a job holds ----


class HeldMemory:
    """The memory of the processes below this one. To be made before there is one of the job: what takes memory while
    it is being looked up would be counted twice, and what is killed by then not at all.
    """

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        self._kills_before = kills_for_memory()
        self.bound_bytes = min(order["memory_bytes"], memory_for_a_job(order["memory_bytes"]))
        """What the job can have: no more than there is for it beside what is no job's."""
        self.peak_bytes = 0
        self._next_exact_s = 0.0

    def exceeded(self, tree: list[int], resident_bytes: int) -> bool:
        """Whether they hold more than they may. `resident_bytes`: their resident memory, as the kernel adds it up."""
        near_bytes = BLAMED_SHARE * self.bound_bytes
        is_near = resident_bytes > near_bytes
        # What nobody has resident is at most all that this machine has in such files.
        unseen_bytes = 0 if is_near else (_named("/proc/meminfo", "Shmem:") or 0) << 10
        if not is_near and (resident_bytes + unseen_bytes <= near_bytes or time.monotonic() < self._next_exact_s):
            self.peak_bytes = max(self.peak_bytes, resident_bytes)
            return False
        began_s = time.thread_time()
        held_bytes = sum(map(_own_bytes, tree)) + self._shared_bytes(tree)
        took_s = time.thread_time() - began_s
        self._next_exact_s = time.monotonic() + min(_AT_LEAST_EVERY_S, took_s / _MOST_OF_A_PROCESSOR)
        self.peak_bytes = max(self.peak_bytes, held_bytes)
        return bool(held_bytes > self._order["memory_bytes"])

    def ended(self, largest_bytes: int) -> None:
        """Take in what the kernel says of the largest of them, once all have ended."""
        self.peak_bytes = max(self.peak_bytes, largest_bytes)

    def ran_out(self) -> bool:
        """Whether the kernel has killed a process since then for want of memory, as far as that can be read."""
        return self._kills_before is not None and kills_for_memory() != self._kills_before

    @property
    def is_to_blame(self) -> bool:
        """Whether it had all that it may have, so that its end for want of memory is its own fault."""
        return bool(self.peak_bytes >= BLAMED_SHARE * self.bound_bytes)

    def _shared_bytes(self, tree: Iterable[int]) -> int:
        """What shared mappings, anonymous files and the folders in memory hold, each once."""
        held: dict[tuple[str, str], int] = {}
        for pid in tree:
            for mapping in nameless_mappings(pid):
                if mapping.path.startswith(("/dev/zero", "/memfd:", "/SYSV")):
                    size_bytes = self._allocated(mapping)
                    held[mapping.identity] = max(size_bytes, held.get(mapping.identity, 0))
        return sum(held.values()) + rooms_in_memory(tree, self._order)[0]

    def _allocated(self, mapping: MappedFile) -> int:
        """What the file behind a mapping holds."""
        try:
            return os.stat(mapping.file).st_blocks * 512
        except FileNotFoundError:
            return 0  # it is gone by now
        except OSError:
            # Only who may do anything on this machine is told. All of it may be there, where a job's address space is
            # bounded; drivers reserve more than they use.
            return mapping.size_bytes if self._order["address_space"] else 0


def _own_bytes(pid: int) -> int:
    """A process's share of memory but for that of files in memory."""
    found = {"Pss:": 0, "Pss_Shmem:": 0}
    try:
        with open(f"/proc/{pid}/smaps_rollup") as rollup:
            for line in rollup:
                name, size, *_ = line.split()
                if name in found:
                    found[name] = int(size) * 1024
        return found["Pss:"] - found["Pss_Shmem:"]
    except OSError:
        return resident_bytes_of(pid)


# ---- what there is, and what the kernel did for want of it ----

_OWN_GROUP = "/proc/self/cgroup"
_FIRST_PID_NAMESPACE = 0xEFFFFFFC
"""PROC_PID_INIT_INO of the kernel's include/linux/proc_ns.h."""


def _own_groups() -> dict[str, str]:
    """The control groups of this process, by controller; of version 2 by the empty name."""
    groups: dict[str, str] = {}
    with contextlib.suppress(OSError, ValueError), open(_OWN_GROUP, encoding="utf-8") as listing:
        for line in listing:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            groups.update(dict.fromkeys(controllers.split(","), path))
    return groups


def _named(place: str, name: str) -> int | None:
    """The number after `name` in a file of such lines; None where it has none."""
    with contextlib.suppress(OSError, ValueError), open(place, encoding="utf-8") as lines:
        for line in lines:
            first, *rest = line.split()
            if first == name:
                return int(rest[0])
    return None


def _number(place: str) -> int | None:
    """The number that is all of a file; None where it says "max", or is not there."""
    with contextlib.suppress(OSError, ValueError), open(place, encoding="utf-8") as file:
        return int(file.read())
    return None


def kills_for_memory() -> int | None:
    """How often the kernel has killed a process for want of memory: in this process's control group where that can
    be read, else on this machine; None where neither is told.
    """
    groups = _own_groups()
    # Control groups of version 1, then of version 2; in a container its own group may be shown as the root.
    places = [f"/sys/fs/cgroup/memory{groups['memory']}/memory.oom_control"] if "memory" in groups else []
    places += ["/sys/fs/cgroup/memory/memory.oom_control"] if "memory" in groups else []
    places += [f"/sys/fs/cgroup{groups.get('', '')}/memory.events", "/sys/fs/cgroup/memory.events", "/proc/vmstat"]
    return next((count for place in places if (count := _named(place, "oom_kill")) is not None), None)


def _sees_all() -> bool:
    """Whether this process sees all processes of the machine, those of other containers included."""
    with contextlib.suppress(OSError):
        return os.stat("/proc/self/ns/pid").st_ino == _FIRST_PID_NAMESPACE
    return False


def _free_bytes() -> tuple[int, int]:
    """Bytes that are free on this machine, or all where other processes of it cannot be seen; and bytes that this
    process and all that share its control groups may still take.
    """
    groups = _own_groups()
    machine = (_named("/proc/meminfo", "MemAvailable:" if _sees_all() else "MemTotal:") or 1 << 53) << 10
    free = [1 << 63]
    for folder in _up_from(f"/sys/fs/cgroup/memory{groups.get('memory', '/')}", "/sys/fs/cgroup/memory"):
        free += _free_in(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
    for folder in _up_from(f"/sys/fs/cgroup{groups.get('', '/')}", "/sys/fs/cgroup"):
        free += _free_in(folder, "memory.max", "memory.current", "")
    return machine, max(0, min(free))


def _up_from(folder: str, root: str) -> list[str]:
    """A folder and those that it is in, up to `root`."""
    parts = folder[len(root) :].strip("/").split("/")
    return [os.path.join(root, *parts[:depth]) for depth in range(len(parts), -1, -1)]


def _free_in(folder: str, limit: str, used: str, prefix: str) -> list[int]:
    limit_bytes, used_bytes = _number(f"{folder}/{limit}"), _number(f"{folder}/{used}")
    if limit_bytes is None or used_bytes is None:
        return []
    cached = (_named(f"{folder}/memory.stat", f"{prefix}{kind}_file") or 0 for kind in ("active", "inactive"))
    return [limit_bytes - used_bytes + sum(cached)]


def memory_for_a_job(wanted_bytes: int) -> int:
    """Bytes that a job could have if no other ran: what is free, and what jobs hold. Where `wanted_bytes` are free,
    what jobs hold is not looked at.
    """
    machine, group = _free_bytes()
    if min(machine, group) >= wanted_bytes:
        return wanted_bytes
    own = _text("/proc/self/cgroup")
    for name in os.listdir("/proc"):
        if name.isdigit() and _text(f"/proc/{name}/oom_score_adj").strip() == _JOBS_SCORE:
            held_bytes = resident_bytes_of(int(name))
            machine += held_bytes
            group += held_bytes if _text(f"/proc/{name}/cgroup") == own else 0
    return min(machine, group)


def _text(place: str) -> str:
    """What a file of /proc holds; nothing where it cannot be read."""
    with contextlib.suppress(OSError), open(place, encoding="utf-8") as file:
        return file.read()
    return ""
