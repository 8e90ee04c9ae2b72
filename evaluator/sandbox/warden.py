"""The warden: a small program that starts jobs and sees to it that nothing of them remains.

It runs as a script of its own (standard library only, one thread), because a grader with threads cannot fork safely,
and because the ends of a job must be seen to even when the grader itself is killed.

    grader ── requests socket ──> parent warden          one for each grader process; forks on request
                                   └── job's warden      one for each job: limits, clock, end of the tree, clean-up
                                        └── the program
                                             └── whatever it starts

Why nothing escapes: the job's warden is a *child subreaper*, so a process that loses its parent (double fork, setsid)
becomes its child; the job is over when the warden has no child left (`waitpid` says so, not a list of names). If the
job's warden is killed, the parent warden is the next subreaper up and ends what it inherits. If the grader goes, its
sockets and its pidfd say so, and every warden ends its job and removes its work folder.

Protocol, on a stream socket for each job, JSON after a length of four bytes: the grader sends an order, the warden
answers `{"started": pid}` or `{"failed": why}` and later `{"ended": …}`. A single byte from the grader means: end the
job now. The end of the stream means: clean up; the warden closes its end when that is done.
"""

import contextlib
import ctypes
import errno
import json
import os
import resource
import select
import shutil
import signal
import socket
import sys
import time
from typing import Any

WATCH_INTERVAL_S = 0.02
END_PATIENCE_S = 10.0
WORK_ENTRIES = 20_000
"""Most files and folders that a job may make in its work folder."""

FIRST_PASSED_ON = 100
"""`sandbox.FIRST_DESCRIPTOR`, which this script cannot import."""

PR_SET_NO_NEW_PRIVS, PR_SET_CHILD_SUBREAPER, PR_CAPBSET_DROP = 38, 36, 24
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_libc = ctypes.CDLL(None, use_errno=True)


def send_message(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send one message of the job's protocol."""
    text = json.dumps(message).encode()
    connection.sendall(len(text).to_bytes(4, "big") + text)


def receive_message(connection: socket.socket) -> dict[str, Any] | None:
    """Receive one message of the job's protocol; None at the end of the stream."""
    header = _receive_exactly(connection, 4)
    text = header and _receive_exactly(connection, int.from_bytes(header, "big"))
    if not text:
        return None
    message: dict[str, Any] = json.loads(text)
    return message


def _receive_exactly(connection: socket.socket, size_bytes: int) -> bytes | None:
    text = b""
    while len(text) < size_bytes:
        piece = connection.recv(size_bytes - len(text))
        if not piece:
            return None
        text += piece
    return text


def remove_folder(path: str) -> None:
    """Remove a work folder whatever a job has made of it: unreadable folders, folders ten thousand deep, links."""
    with contextlib.suppress(OSError, RecursionError):
        shutil.rmtree(path)
    if not os.path.lexists(path):
        return
    # Their own walk has no limit of depth, of path length or of open files.
    for command in (["chmod", "-R", "u+rwX", path], ["rm", "-rf", "--one-file-system", path]):
        with contextlib.suppress(OSError):
            pid = os.posix_spawnp(
                command[0],
                command,
                {"PATH": "/usr/bin:/bin"},
                file_actions=[(os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0)],
            )
            os.waitpid(pid, 0)


# ---- the tree of processes ----


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


# ---- the parent warden ----


def serve(requests: socket.socket, grader_pid: int) -> None:
    """Fork a warden for each request (file descriptors: stdin, stdout, stderr, control, then those to pass on)."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wakeup = _wake_on_children()
    grader = _watch_process(grader_pid)
    wardens: set[int] = set()
    poller = _poller(requests.fileno(), wakeup, grader)
    while True:
        ready = [fd for fd, _ in poller.poll()]
        if grader in ready:
            return
        if requests.fileno() in ready:
            message, fds, _, _ = socket.recv_fds(requests, 64, 16)
            if not message:
                return
            for fd in fds:
                os.set_inheritable(fd, False)  # above all the control socket: no job may speak for its warden
            pid = os.fork()
            if pid == 0:
                requests.close()
                os._exit(_guard(fds, grader))
            for fd in fds:
                os.close(fd)
            wardens.add(pid)
        if wakeup in ready:
            _drain(wakeup)
            wardens -= set(end_children(keep=frozenset(wardens)))


def _wake_on_children() -> int:
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def _watch_process(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1


def _poller(*fds: int) -> select.poll:
    poller = select.poll()
    for fd in fds:
        if fd >= 0:
            poller.register(fd, select.POLLIN)
    return poller


def _drain(fd: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(fd, 4096):
            pass


# ---- the warden of one job ----


def _guard(fds: list[int], grader: int) -> int:
    stdin, stdout, stderr, control, *passed_on = fds
    with socket.socket(fileno=control) as connection:
        wakeup = _wake_on_children()
        order = receive_message(connection)
        if order is None:
            return 1
        try:
            try:
                child = _launch(order, (stdin, stdout, stderr), passed_on)
            except OSError as error:
                end_children()
                send_message(connection, {"failed": error.strerror, "errno": error.errno})
            else:
                for fd in (stdin, stdout, stderr, *passed_on):
                    os.close(fd)
                send_message(connection, {"started": os.getpid()})
                ended = _supervise(order, child, connection, wakeup, grader)
                send_message(connection, {"ended": ended})
            _wait_for_leave(connection, grader)
        except OSError:
            end_children()  # the grader is gone
        finally:
            remove_folder(order["folder"])
    return 0


def _wait_for_leave(connection: socket.socket, grader: int) -> None:
    poller = _poller(connection.fileno(), grader)
    while grader not in [fd for fd, _ in poller.poll()] and connection.recv(64):
        pass


def _launch(order: dict[str, Any], standard: tuple[int, int, int], passed_on: list[int]) -> int:
    # The pipe stays open until execve succeeds (close on exec) or brings the reason why not.
    reading, writing = os.pipe2(os.O_CLOEXEC)
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    rlimits = _rlimits(order)
    child = os.fork()
    if child == 0:
        try:
            _become(order, standard, passed_on, rlimits)
        except OSError as error:
            os.write(writing, str(error.errno).encode())
        finally:
            os._exit(127)
    os.close(writing)
    failure = os.read(reading, 16)
    os.close(reading)
    if failure:
        raise OSError(int(failure), os.strerror(int(failure)))
    return child


def _rlimits(order: dict[str, Any]) -> list[tuple[int, int, int]]:
    cpu_s = order["cpu_s"]
    limits = [
        (resource.RLIMIT_CPU, cpu_s, cpu_s + 1),
        (resource.RLIMIT_FSIZE, order["file_bytes"], order["file_bytes"]),
        (resource.RLIMIT_NOFILE, order["open_files"], order["open_files"]),
        (resource.RLIMIT_CORE, 0, 0),
    ]
    if order["address_space"]:
        limits.append((resource.RLIMIT_AS, order["memory_bytes"], order["memory_bytes"]))
    if os.getuid() != 0:
        # The kernel counts all tasks of the user, not of the job, and does not count root's at all; the exact limit
        # is the watch's.
        tasks = order["processes"]
        for name in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if name.isdigit() and os.stat(f"/proc/{name}").st_uid == os.getuid():
                    tasks += len(os.listdir(f"/proc/{name}/task"))
        limits.append((resource.RLIMIT_NPROC, tasks, tasks))
    return limits


def _become(
    order: dict[str, Any],
    standard: tuple[int, int, int],
    passed_on: list[int],
    rlimits: list[tuple[int, int, int]],
) -> None:
    os.setsid()
    os.umask(0o077)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    # Duplicates above the standard three first, so that none is overwritten before it is used.
    high = [os.dup(fd) if fd < 3 else fd for fd in standard]
    for target, fd in enumerate(high):
        os.dup2(fd, target)
    for target, fd in enumerate(passed_on, FIRST_PASSED_ON):
        os.dup2(fd, target)
    os.chdir(order["folder"])
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")  # when the machine runs out of memory, the job goes before anyone else
    for kind, soft, hard in rlimits:
        ceiling = resource.getrlimit(kind)[1]
        if ceiling != resource.RLIM_INFINITY and os.getuid() != 0:
            soft, hard = min(soft, ceiling), min(hard, ceiling)
        resource.setrlimit(kind, (soft, hard))
    if order["drop_capabilities"]:
        for capability in range(64):
            _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    if _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS)")
    for attempt in range(20):
        try:
            os.execve(order["argv"][0], order["argv"], order["environment"])
        except OSError as error:
            if error.errno == errno.ENOEXEC:  # the file is the caller's to judge, not a failure of ours
                os.write(2, f"{order['argv'][0]}: {error.strerror}\n".encode())
                os._exit(126)
            # A process forked elsewhere in the grader may hold the fresh file open for writing for a moment.
            if error.errno != errno.ETXTBSY or attempt == 19:
                raise
            time.sleep(0.005)


def _supervise(
    order: dict[str, Any], child: int, connection: socket.socket, wakeup: int, grader: int
) -> dict[str, Any]:
    """Wait for the job's end, or bring it about; returns how it ended once nothing of it is left."""
    start = time.monotonic()
    poller = _poller(wakeup, connection.fileno(), grader)
    reason, statuses, peak_bytes = None, dict[int, int](), 0
    next_watch = start + WATCH_INTERVAL_S
    next_look = next_watch
    while child not in statuses and reason is None:
        now = time.monotonic()
        pause_s = max(0.0, min(start + order["wall_s"], next_watch) - now)
        ready = [fd for fd, _ in poller.poll(pause_s * 1000)]
        if wakeup in ready:
            _drain(wakeup)
            with contextlib.suppress(ChildProcessError):
                while True:
                    pid, status = os.waitpid(-1, os.WNOHANG)
                    if pid == 0:
                        break
                    statuses[pid] = status
            if child in statuses:
                break
        now = time.monotonic()
        if connection.fileno() in ready or grader in ready:
            reason = "ordered"
        elif now - start >= order["wall_s"]:
            reason = "wall"
        elif now >= next_watch:
            reason, resident_bytes = _watch_tree(order)
            peak_bytes = max(peak_bytes, resident_bytes)
            if reason is None and now >= next_look:
                reason = "work" if _work_exceeded(order) else None
                # A large folder is looked at less often: at most a twentieth of a core.
                next_look = time.monotonic() + max(0.08, 20 * (time.monotonic() - now))
            next_watch = time.monotonic() + WATCH_INTERVAL_S
    wall_s = time.monotonic() - start
    statuses |= end_children()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    if reason is None and _work_exceeded(order):
        reason = "work"
    return {
        "exit": os.waitstatus_to_exitcode(statuses[child]) if child in statuses else -signal.SIGKILL,
        "reason": reason,
        "wall_s": wall_s,
        "peak_bytes": max(peak_bytes, usage.ru_maxrss * 1024),
        "left": len(list_children(os.getpid())),
    }


def _watch_tree(order: dict[str, Any]) -> tuple[str | None, int]:
    tasks = resident = 0
    tree = descendants(os.getpid(), most=order["processes"])
    if len(tree) > 2 * order["processes"]:
        return "processes", 0  # far too many: no time to look at each
    for pid in tree:
        fields = _stat_fields(pid)
        if fields and fields[0] not in "ZX":
            tasks += int(fields[17])
            resident += int(fields[21]) * PAGE_BYTES
    if tasks > order["processes"]:
        return "processes", resident
    if resident > order["memory_bytes"]:
        # Pages that processes share were counted several times: take the exact, slower figure before judging.
        resident = sum(map(_proportional_bytes, tree))
    return ("memory" if resident > order["memory_bytes"] else None), resident


def _proportional_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup") as rollup:
            return next((int(line.split()[1]) * 1024 for line in rollup if line.startswith("Pss:")), 0)
    except OSError:
        fields = _stat_fields(pid)
        return int(fields[21]) * PAGE_BYTES if fields else 0


def _work_exceeded(order: dict[str, Any]) -> bool:
    used_bytes = entries = 0
    pending = [order["folder"]]
    while pending:
        try:
            with os.scandir(pending.pop()) as listing:
                for entry in listing:
                    entries += 1
                    with contextlib.suppress(FileNotFoundError):
                        used_bytes += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    if entries > WORK_ENTRIES or used_bytes > order["work_bytes"]:
                        return True
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return True  # made unreadable or deeper than any path: what is in there cannot be counted
    return False


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
