"""The warden: a small program that starts jobs and sees to it that nothing of them remains.

It runs as a program of its own (standard library only, one thread), because a grader with threads cannot fork safely,
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
import struct
import time
from typing import Any

from evaluator.sandbox.host import process_tree
from evaluator.sandbox.host.held_memory import HeldMemory
from evaluator.sandbox.host.process_tree import descendants, end_children, list_children

WATCH_INTERVAL_S = 0.02
WORK_ENTRIES = process_tree.WORK_ENTRIES
STRETCH, STRETCH_S = 2.0, 30.0
"""The time that a job stood in line for a processor does not count, until it has lasted so many times its wall time;
where that is short, so many seconds more. With as many workers as processors a job has more than half of one; what
has less for so long says that the machine is overloaded, and its caller must not wait for that any longer."""
STRETCH_BEHIND = 6.0
"""The same for a job that lets others go first: with a third of their weight it has a third of their time at least,
and is given up no sooner than one of theirs would be."""
STEP_BACK_AFTER_S, STEP_BACK = 2.0, 5
"""From so much CPU time on a job lets others go first: twice an ordinary job's, so that those never wait. By so many
steps of nice(2): a third of the weight, which leaves a quarter of a processor beside one that is short, and all of it
where nobody else wants it."""

CPU_MET = 0.5
"""From this share of a job's CPU time on, a SIGXCPU is its limit's. The kernel's limit counts whole ticks against
the process that runs when one falls, its report measures time: 1 s of ticks was less than 0.9 s on a busy machine."""

FIRST_PASSED_ON = 100
"""`sandbox.FIRST_DESCRIPTOR`, without what importing it would bring along."""

PR_SET_NO_NEW_PRIVS, PR_SET_CHILD_SUBREAPER, PR_CAPBSET_DROP, PR_SET_DUMPABLE = 38, 36, 24, 4
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 445, 446
LANDLOCK_READ_AND_WRITE_FILES = 0b1110
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
        if os.path.islink(path):
            os.unlink(path)  # put in the folder's place: what it leads to is nothing of the job's
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


# ---- the parent warden ----


def serve_wardens(requests: socket.socket, grader_pid: int) -> None:
    """Fork a warden for each request (file descriptors: stdin, stdout, stderr, control, then those to pass on)."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wakeup = wake_on_children()
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


def wake_on_children() -> int:
    """A descriptor that becomes readable whenever a child ends."""
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
        wakeup = wake_on_children()
        order = receive_message(connection)
        if order is None:
            return 1
        ruleset = passed_on.pop() if order["confined"] else None
        try:
            try:
                memory = HeldMemory(order)
                child = launch(order, (stdin, stdout, stderr), passed_on, ruleset)
            except OSError as error:
                end_children()
                send_message(connection, {"failed": error.strerror, "errno": error.errno})
            else:
                for fd in fds:
                    if fd != control:
                        os.close(fd)
                send_message(connection, {"started": os.getpid()})
                ended = supervise(order, child, memory, connection, wakeup, grader)
                send_message(connection, {"ended": ended})
            _wait_for_leave(connection, grader)
        except OSError:
            end_children()  # the grader is gone
        finally:
            remove_folder(order["folder"])
    return 0


def longest_s(wall_s: float, steps_back: bool) -> float:
    """How long a job with this limit may last on a machine that is too busy for it; `steps_back` as in its order."""
    return max((STRETCH_BEHIND if steps_back else STRETCH) * wall_s, wall_s + STRETCH_S)


def _wait_for_leave(connection: socket.socket, grader: int) -> None:
    poller = _poller(connection.fileno(), grader)
    while grader not in [fd for fd, _ in poller.poll()] and connection.recv(64):
        pass


def launch(
    order: dict[str, Any], standard: tuple[int, int, int], passed_on: list[int], ruleset: int | None = None
) -> int:
    """Start the job's program with its limits; returns its process number. Raises OSError when it cannot start."""
    # The pipe stays open until execve succeeds (close on exec) or brings the reason why not.
    reading, writing = os.pipe2(os.O_CLOEXEC)
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    rlimits = _rlimits(order)
    child = os.fork()
    if child == 0:
        try:
            _become(order, standard, passed_on, rlimits, ruleset)
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
        (resource.RLIMIT_CORE, 1, 1),  # not 0: where core files go into a pipe, only 1 means "none"
    ]
    if order["address_space"]:
        limits.append((resource.RLIMIT_AS, order["memory_bytes"], order["memory_bytes"]))
    if os.getuid() != 0 and os.getpid() != 1:
        # The kernel counts all tasks of the user, not of the job, and does not count root's at all; the exact limit
        # is the watch's. In a container of its own (process 1) the tasks are its control group's to bound.
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
    ruleset: int | None,
) -> None:
    if order.get("task_group"):
        # Before anything else: nothing of the job may ever run uncounted.
        with open(order["task_group"], "w") as members:
            members.write("0")
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
    _libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # the files in /proc/self are this user's only then
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
    if ruleset is not None:
        _confine(ruleset, order["own_entry"])
    if order.get("filter"):
        _refuse_calls(bytes.fromhex(order["filter"]))
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


def _confine(ruleset: int, own_entry: bool) -> None:
    # A job is shown its own first process in /proc, which nobody could name before there was one.
    if own_entry:
        place = os.open("/proc/self", os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("<Qi", LANDLOCK_READ_AND_WRITE_FILES, place)
        if _libc.syscall(LANDLOCK_ADD_RULE, ruleset, 1, rule, 0) != 0:
            raise OSError(ctypes.get_errno(), "landlock_add_rule")
        os.close(place)
    if _libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0) != 0:
        raise OSError(ctypes.get_errno(), "landlock_restrict_self")
    os.close(ruleset)


def _refuse_calls(program: bytes) -> None:
    steps = ctypes.create_string_buffer(program, len(program))
    calls = struct.pack("@HP", len(program) // 8, ctypes.addressof(steps))
    if _libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, calls, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_SECCOMP)")


def supervise(
    order: dict[str, Any], child: int, memory: HeldMemory, connection: socket.socket, wakeup: int, grader: int
) -> dict[str, Any]:
    """Wait for the job's end, or bring it about; returns how it ended once nothing of it is left.

    `memory` was made before the `child`.
    """
    # Root's processes are counted by this watch alone, and on a busy machine a fork bomb would outrun it.
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -15)
    start = time.monotonic()
    poller = _poller(wakeup, connection.fileno(), grader)
    reason, statuses = None, dict[int, int]()
    line, work = process_tree.RunQueueTime(), process_tree.WrittenFiles(order)
    niceness = process_tree.Niceness(STEP_BACK)
    end = start + order["wall_s"]
    most_s = longest_s(order["wall_s"], order.get("steps_back", False))
    next_watch = start + WATCH_INTERVAL_S
    next_look = next_watch
    while child not in statuses and reason is None:
        now = time.monotonic()
        pause_s = max(0.0, min(end, next_watch) - now)
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
        elif now >= end:
            line.look()
            end = start + min(order["wall_s"] + line.waited_s(now - start), most_s)
            reason = "wall" if now >= end else None
        elif now >= next_watch:
            line.look()
            if order.get("steps_back") and line.used_s >= STEP_BACK_AFTER_S:
                niceness.apply()
            reason = _limit_exceeded(order, memory)
            if reason is None and now >= next_look:
                before_s = time.thread_time()
                reason = "work" if work.exceeded() else None
                # A large folder is looked at less often: at most a twentieth of a core, but every second.
                next_look = time.monotonic() + min(1.0, max(0.08, 20 * (time.thread_time() - before_s)))
            next_watch = time.monotonic() + WATCH_INTERVAL_S
    wall_s = time.monotonic() - start
    statuses |= end_children()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    over = work.exceeded()
    if reason is None and over:
        reason = "work"
    used_s = usage.ru_utime + usage.ru_stime
    code = os.waitstatus_to_exitcode(statuses[child]) if child in statuses else -signal.SIGKILL
    if reason is None and code in (-signal.SIGKILL, 128 + signal.SIGKILL):
        # A program that ignores SIGXCPU is killed a second later, and would seem to have died of something else.
        code = -signal.SIGXCPU if used_s > order["cpu_s"] else code
    # Anyone may send these signals; whether a limit of ours did is for what was measured to say.
    written_bytes = max(2 * work.largest_bytes, usage.ru_oublock * 512)
    memory.ended(usage.ru_maxrss * 1024)
    no_memory = memory.ran_out()
    sent = {
        signal.SIGXCPU: used_s >= CPU_MET * order["cpu_s"],
        signal.SIGXFSZ: written_bytes >= order["file_bytes"],
        # The kernel takes jobs first, whoever has taken the memory.
        signal.SIGKILL: no_memory and memory.is_to_blame,
    }
    return {
        "exit": code,
        "reason": reason,
        "wall_s": wall_s,
        "waited_s": line.waited_s(wall_s),
        "too_busy": reason == "wall" and wall_s >= most_s,
        # What a killed process of a namespace took is not always in the kernel's sum.
        "used_s": max(used_s, line.used_s),
        "own_signals": [int(number) for number, ours in sent.items() if ours],
        "memory_full": memory.is_to_blame,
        "memory_taken": no_memory and not memory.is_to_blame,
        "left": len(list_children(os.getpid())),
    }


def _limit_exceeded(order: dict[str, Any], memory: HeldMemory) -> str | None:
    """Which of two limits the tree below this process breaks: `processes` or `memory`."""
    tree = descendants(os.getpid(), most=order["processes"])
    if len(tree) > 2 * order["processes"]:
        return "processes"  # far too many: no time to look at each
    tasks, resident_bytes = process_tree.look_at(tree)
    if tasks > order["processes"]:
        return "processes"
    return "memory" if memory.exceeded(tree, resident_bytes) else None


def main(arguments: list[str]) -> None:
    """Serve the requests on a socket (its descriptor), for a grader (its number)."""
    serve_wardens(socket.socket(fileno=int(arguments[0])), int(arguments[1]))
