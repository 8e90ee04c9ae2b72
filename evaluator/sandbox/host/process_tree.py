"""What a job's processes are and what they hold: looked up in /proc, by the warden (standard library only)."""

import contextlib
import os
import signal
import stat
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

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
    """Fields 3 and on of /proc/PID/stat: [0] is the state, [1] the parent, [17] the threads, [21] the resident pages;
    None where the process is gone.
    """
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


def resident_bytes_of(pid: int) -> int:
    """A process's resident memory; 0 where it is gone."""
    fields = _stat_fields(pid)
    return int(fields[21]) * PAGE_BYTES if fields else 0


SHARED_ANONYMOUS = "/dev/zero (deleted)"
"""What /proc calls what is mapped by processes that share it and no file backs: memory, and no file."""


class MappedFile(NamedTuple):
    """A stretch of a process's addresses with a file behind it that has no name any more."""

    file: str
    """Where it can be looked at, for who may do that."""
    size_bytes: int
    identity: tuple[str, str]
    """Device and number of the file, as text."""
    path: str
    """As it was called; ` (deleted)` is the end of it."""


def nameless_mappings(pid: int) -> Iterator[MappedFile]:
    """What a process has mapped of files without a name; nothing of one that is gone or may not be looked at."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", errors="replace") as maps:
        for line in maps:
            if line.endswith("(deleted)\n"):
                extent, _, _, device, number, path = line.rstrip("\n").split(maxsplit=5)
                start, end = (int(place, 16) for place in extent.split("-"))
                file = f"/proc/{pid}/map_files/{start:x}-{end:x}"
                yield MappedFile(file, end - start, (device, number), path)


def look_at(tree: Iterable[int]) -> tuple[int, int]:
    """How many tasks these processes have, and their resident memory, in which shared pages count several times.

    Those that someone has stopped go on: nothing in a job has reason to wait for a SIGCONT.
    """
    tasks = resident_bytes = 0
    for pid in tree:
        fields = _stat_fields(pid)
        if fields and fields[0] == "T":
            # A stop from outside must not let its time run out.
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGCONT)
        if fields and fields[0] not in "ZX":
            tasks += int(fields[17])
            resident_bytes += int(fields[21]) * PAGE_BYTES
    return tasks, resident_bytes


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
        return rooms_in_memory(tree, order)[1] > WORK_ENTRIES

    def _nameless_bytes(self, tree: Iterable[int]) -> int:
        """What unlinked files hold that are still open, or mapped (where this user is told of those), and anonymous
        ones (memfd).
        """
        sizes: dict[tuple[int, int], int] = {}
        for pid in tree:
            for mapping in nameless_mappings(pid):
                if mapping.path != SHARED_ANONYMOUS:
                    with contextlib.suppress(OSError):
                        status = os.stat(mapping.file)
                        sizes[status.st_dev, status.st_ino] = status.st_blocks * 512
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


def rooms_in_memory(tree: Iterable[int], order: dict[str, Any]) -> tuple[int, int]:
    """What the job's folders in memory hold, as a process sees them that is in there: bytes of all, and the number of
    files in the fullest.
    """
    for pid in tree if order.get("in_memory") else ():
        root = f"/proc/{pid}/root"
        with contextlib.suppress(OSError):
            # One that still has the host's root, before or around the namespace, would show the host's folders.
            if os.path.samestat(os.stat(root + order["seen_as"]), os.stat(order["folder"])):
                rooms = [os.statvfs(root + place) for place in order["in_memory"]]
                held_bytes = sum((room.f_blocks - room.f_bfree) * room.f_frsize for room in rooms)
                return held_bytes, max(room.f_files - room.f_ffree for room in rooms)
    return 0, 0
