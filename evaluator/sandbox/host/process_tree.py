"""What a job's processes are and what they hold: looked up in /proc, by the warden (standard library only)."""

import contextlib
import os
import signal
import stat
import time
from collections.abc import Iterable
from typing import Any

END_PATIENCE_S = 10.0
WORK_ENTRIES = 20_000
"""Most files and folders that a job may make in its work folder, and in each of its folders in memory."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


# ---- the tree ----


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as listing:
                found += map(int, listing.read().split())
    return found


def _children_by_scan(pid: int) -> list[int]:
    # For kernels without /proc/PID/task/TID/children.
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat_fields(int(name))
            if fields and int(fields[1]) == pid:
                found.append(int(name))
    return found


list_children = _children if os.path.exists("/proc/thread-self/children") else _children_by_scan


def _stat_fields(pid: int) -> list[str] | None:
    # Fields 3 and on of /proc/PID/stat: [0] is the state, [1] the parent, [17] the threads, [21] the resident pages.
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def descendants(pid: int, most: int = 1 << 30) -> list[int]:
    """The processes below `pid`, nearest first; looking stops once there are more than `most`."""
    found = list_children(pid)
    for child in found:  # grows while it is walked
        if len(found) > most:
            break
        found += list_children(child)
    return found


def end_children(keep: frozenset[int] = frozenset()) -> dict[int, int]:
    """Kill and reap all that is below this process, except the children in `keep`; returns their wait statuses.

    Gives up only on processes that a SIGKILL does not end within `END_PATIENCE_S`.
    """
    statuses: dict[int, int] = {}
    patience = time.monotonic() + END_PATIENCE_S
    while True:
        _kill_below([pid for pid in list_children(os.getpid()) if pid not in keep])
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                statuses[pid] = status
        if not [pid for pid in list_children(os.getpid()) if pid not in keep] or time.monotonic() > patience:
            return statuses
        time.sleep(0.0005)


def _kill_below(pending: list[int]) -> None:
    # Whole groups first, in one call that no fork can slip through; and every process before its children are looked
    # for, so that the death of a namespace's first process ends the rest before anyone has to list it.
    own_group = os.getpgid(0)
    killed_groups = {own_group}
    for pid in pending:
        with contextlib.suppress(OSError):
            group = os.getpgid(pid)
            if group not in killed_groups:
                killed_groups.add(group)
                os.killpg(group, signal.SIGKILL)
        below = list_children(pid)
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
        pending += below  # grows while it is walked


# ---- what it holds ----


def processes_or_memory_exceeded(order: dict[str, Any]) -> tuple[str | None, int]:
    """Which of the two limits the tree below this process breaks, and the bytes of memory that it holds."""
    tasks = resident = 0
    tree = descendants(os.getpid(), most=order["processes"])
    if len(tree) > 2 * order["processes"]:
        return "processes", 0  # far too many: no time to look at each
    for pid in tree:
        fields = _stat_fields(pid)
        if fields and fields[0] == "T":
            # Nothing in a job has reason to wait for a SIGCONT: a stop from outside must not let its time run out.
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGCONT)
        if fields and fields[0] not in "ZX":
            tasks += int(fields[17])
            resident += int(fields[21]) * PAGE_BYTES
    if tasks > order["processes"]:
        return "processes", resident
    if resident > order["memory_bytes"]:
        # Pages that processes share were counted several times: take the exact, slower figure before judging.
        resident = sum(map(_proportional_bytes, tree))
    return ("memory" if resident > order["memory_bytes"] else None), resident


class RunQueueTime:
    """How long the processes of a job stood in line for a processor: the time that a busy machine took from it."""

    def __init__(self) -> None:
        self._ns: dict[int, tuple[int, int]] = {}  # of each process ever seen: on a processor, in line
        self._in_line_since_s: dict[int, float] = {}  # of those in line at the last look
        self._looked_s = 0.0

    def look(self) -> None:
        """Note how far the processes below this one have come; those that have ended keep what was seen last.

        Linux adds a wait to a process's account when it ends. Who is in line all the time between two looks has not
        run, though nothing says how long: that time counts from the first of them.
        """
        before, self._looked_s = self._in_line_since_s, time.monotonic()
        self._in_line_since_s = {}
        for pid in descendants(os.getpid(), most=100):
            with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/schedstat") as file:
                used_ns, waited_ns, _ = map(int, file.read().split())
                fields = _stat_fields(pid)
                if fields and fields[0] == "R":
                    stands_still = self._ns.get(pid) == (used_ns, waited_ns)
                    self._in_line_since_s[pid] = before.get(pid, self._looked_s) if stands_still else self._looked_s
                self._ns[pid] = used_ns, waited_ns

    @property
    def used_s(self) -> float:
        """How long the processes of the job ran, as far as the looks saw, seconds of a processor."""
        return sum(used for used, _ in self._ns.values()) / 1e9

    def waited_s(self, elapsed_s: float) -> float:
        """Of `elapsed_s`, what no process of the job ran in, and one could have. A job of many processes that
        wait for each other uses the processors meanwhile, which leaves nothing of it.
        """
        waited_s = sum(waited for _, waited in self._ns.values()) / 1e9
        waited_s += sum(self._looked_s - since_s for since_s in self._in_line_since_s.values())
        return max(0.0, min(waited_s, elapsed_s - self.used_s))


class Niceness:
    """Has the processes below this one let others go first. To be applied again while new ones may come."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._done: set[int] = set()

    def apply(self) -> None:
        """A kernel that shares out the processor by sessions heeds the session's niceness, else the process's."""
        for pid in descendants(os.getpid(), most=100):
            if pid in self._done:
                continue
            with contextlib.suppress(OSError):  # it is gone
                os.setpriority(os.PRIO_PROCESS, pid, self._steps)
                place = f"/proc/{pid}/autogroup"
                if os.path.exists(place):
                    with open(place, "w") as session:  # refused (EAGAIN) while another was just changed: next time
                        session.write(str(self._steps))
                self._done.add(pid)


def _proportional_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup") as rollup:
            return next((int(line.split()[1]) * 1024 for line in rollup if line.startswith("Pss:")), 0)
    except OSError:
        fields = _stat_fields(pid)
        return int(fields[21]) * PAGE_BYTES if fields else 0


class WrittenFiles:
    """What a job has written: looked at while it runs, and once more when it has ended."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        self.largest_bytes = 0
        """Size of the largest file that any look has seen; its name may be gone since."""

    def exceeded(self) -> bool:
        """Whether the work folder, the folders in memory and files without a name hold more than is allowed."""
        order = self._order
        used_bytes = entries = 0
        pending = [order["folder"]]
        while pending:
            try:
                with os.scandir(pending.pop()) as listing:
                    for entry in listing:
                        entries += 1
                        with contextlib.suppress(FileNotFoundError):
                            status = entry.stat(follow_symlinks=False)
                            used_bytes += status.st_blocks * 512
                            self.largest_bytes = max(self.largest_bytes, status.st_size)
                        if entry.is_dir(follow_symlinks=False):
                            pending.append(entry.path)
                        if entries > WORK_ENTRIES or used_bytes > order["work_bytes"]:
                            return True
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                return True  # made unreadable or deeper than any path: what is in there cannot be counted
        tree = descendants(os.getpid())
        if used_bytes + self._nameless_bytes(tree) > order["work_bytes"]:
            return True
        return bool(order.get("in_memory")) and _most_entries(tree, order) > WORK_ENTRIES

    def _nameless_bytes(self, tree: Iterable[int]) -> int:
        """What unlinked files hold that are still open, and anonymous ones (memfd)."""
        sizes: dict[tuple[int, int], int] = {}
        for pid in tree:
            with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as listing:
                for entry in listing:
                    with contextlib.suppress(OSError):
                        status = entry.stat()
                        if not stat.S_ISREG(status.st_mode):
                            continue
                        writing = entry.stat(follow_symlinks=False).st_mode & stat.S_IWUSR
                        self.largest_bytes = max(self.largest_bytes, status.st_size if writing else 0)
                        if status.st_nlink == 0:
                            sizes[status.st_dev, status.st_ino] = status.st_blocks * 512
        return sum(sizes.values())


def _most_entries(tree: Iterable[int], order: dict[str, Any]) -> int:
    """The number of files in the fullest of the job's folders in memory, as a process sees them that is in there."""
    for pid in tree:
        root = f"/proc/{pid}/root"
        with contextlib.suppress(OSError):
            # One that still has the host's root, before or around the namespace, would show the host's folders.
            if os.path.samestat(os.stat(root + order["seen_as"]), os.stat(order["folder"])):
                rooms = [os.statvfs(root + place) for place in order["in_memory"]]
                return max(room.f_files - room.f_ffree for room in rooms)
    return 0


# ---- what the kernel did for want of memory ----

_OWN_GROUP = "/proc/self/cgroup"


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


def memory_there_is() -> int:
    """Bytes that this process and all that share its control groups may have together."""
    groups = _own_groups()
    most = [(_named("/proc/meminfo", "MemTotal:") or 1 << 53) << 10]
    for group in (groups.get("memory", "/"), "/"):
        bound = _named(f"/sys/fs/cgroup/memory{group}/memory.stat", "hierarchical_memory_limit")
        most += [bound] if bound else []
    parts = groups.get("", "/").strip("/").split("/")
    for depth in range(len(parts) + 1):
        with contextlib.suppress(OSError, ValueError):  # "max" is none
            folder = "/".join(("/sys/fs/cgroup", *parts[:depth]))
            with open(f"{folder}/memory.max", encoding="utf-8") as file:
                most.append(int(file.read()))
    return min(most)
