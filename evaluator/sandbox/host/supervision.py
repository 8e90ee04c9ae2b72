"""The grader's side of a job: its work folder, its pipes, and the conversation with its warden (see warden.py).

Every kind of sandbox on this machine shares this one path; they differ in the command that they start.
"""

import atexit
import contextlib
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from evaluator.errors import JobKilledError, SandboxError
from evaluator.sandbox.host import warden
from evaluator.sandbox.host.result import ended_in_words, finished_from, limit_hit
from evaluator.sandbox.host.task_group import TaskGroup
from evaluator.sandbox.host.work_folder import WorkFolders, collect_files, write_files
from evaluator.sandbox.sandbox import Job, JobResult, SessionEndedError

PIPE_BYTES = 1 << 20
GRACE_S = 0.2
"""How long a session's program may take to end by itself once its stdin is closed."""
_AHEAD_BYTES = 4096
"""Of a program's answer, read together: most are some hundred bytes of numbers before what memory holds."""
PATIENCE_S = 15.0
"""How long the warden may be late before the job is given up: more than it takes for the end of any tree."""
PATH = "/usr/local/bin:/usr/bin:/bin"
_LONGEST_PAUSE_S = 3600.0


def installed_program(job: Job) -> str | None:
    """The program's path, or None where it is one of the job's files. Raises SandboxError for impossible names."""
    for name in (*job.files, *job.collect):
        plain = name not in ("", ".", "..") and "/" not in name and "\0" not in name
        if not plain or len(os.fsencode(name)) > 255:
            raise SandboxError(f"{name!r} is not a plain file name.", "Give files of a job names without folders.")
    program = job.argv[0] if job.argv else ""
    if not program.startswith("./"):
        return program
    if program[2:] not in job.files:
        raise SandboxError(f"The program {program!r} is not one of the job's files.", "Put it into Job.files.")
    return None


def check_job(job: Job) -> None:
    """Refuse a job that cannot be meant: raises SandboxError."""
    program = installed_program(job)
    if program is not None and not (
        os.path.isabs(program) and os.path.isfile(program) and os.access(program, os.X_OK)
    ):
        raise SandboxError(f"There is no program at {program!r}.", "Give the absolute path of an installed program.")
    for path in job.devices:
        if not (path.is_absolute() and path.parts[1] == "dev" and (path.is_char_device() or path.is_dir())):
            raise SandboxError(f"The job is to use {path}, which is no device.", "Give device nodes under /dev.")
    for path in job.readable:
        if not (path.is_absolute() and path.exists()):
            raise SandboxError(f"The job is to read {path}, which does not exist.", "Give existing, absolute paths.")


# ---- the parent warden of this process ----


class _ParentWarden:
    """The one process that forks this grader's wardens; started on first use, again after a fork or when it died."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self._close)

    def request(self, fds: list[int]) -> None:
        """Fork a warden that gets these descriptors."""
        with self._lock:
            for attempt in (1, 2):
                if self._requests is None:
                    self._open()
                assert self._requests is not None
                try:
                    socket.send_fds(self._requests, [b"job"], fds)
                    return
                except (BrokenPipeError, ConnectionError) as error:
                    self._close()
                    if attempt == 2:
                        raise SandboxError(f"The process that starts jobs does not run: {error}.") from error

    def go_on(self) -> None:
        """Wake it, should someone have stopped it: else no job of this grader would start any more."""
        with self._lock, contextlib.suppress(OSError):
            if self._process is not None and self._process.returncode is None:
                os.kill(self._process.pid, signal.SIGCONT)

    def _open(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [*_WARDEN, str(theirs.fileno()), str(os.getpid())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    cwd="/",
                    # A job that could read the warden's environment would find nothing in it.
                    env={k: v for k, v in os.environ.items() if k in ("PATH", "LD_LIBRARY_PATH")},
                    start_new_session=True,  # Ctrl-C is the grader's; it tells its wardens
                )
            except OSError as error:
                ours.close()
                raise SandboxError(f"The process that starts jobs could not be started: {error}.") from error
        self._requests = ours

    def _close(self) -> None:
        if self._requests is not None:
            self._requests.close()
            self._requests = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=5)
            self._process = None

    def _forget(self) -> None:
        # In a forked child the socket and the process are the parent's.
        self._lock = threading.Lock()
        if self._requests is not None:
            self._requests.close()
        if self._process is not None:
            self._process.returncode = 0  # not our child: nothing to wait for
        self._requests = self._process = None


# -I and -S: nothing from the environment or from installed packages; hence the path of our own.
_START = (
    "import sys; sys.path.insert(0, sys.argv[2]); "
    "from evaluator.sandbox.host import warden; warden.main(sys.argv[3:])"
)
_WARDEN = (sys.executable, "-I", "-S", "-c", _START, warden.__file__, str(Path(__file__).parents[3]))

_parent_warden = _ParentWarden()


# ---- one job ----


@dataclass(frozen=True)
class Command:
    """What a kind of sandbox starts for a job."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    drop_capabilities: bool
    passed_on: tuple[int, ...] = ()
    """Descriptors that the started program gets, as `sandbox.FIRST_DESCRIPTOR` and on."""
    ruleset: int | None = None
    """What it may do with files and other processes: see landlock.py."""
    system_calls: bytes = b""
    """What it may not ask of the kernel: see seccomp.py. Empty for a command that sees to that itself."""
    in_memory: tuple[str, ...] = ()
    """Folders in memory, as the program sees them, in which files are counted."""
    seen_as: str = ""
    """The work folder as the program sees it, where it has folders in memory."""


class SupervisedSession:
    """A running job. Not for use by two threads at once; many sessions may run in many threads."""

    def __init__(self, job: Job, folders: WorkFolders, talk: bool) -> None:
        check_job(job)
        self._job = job
        self._talk = talk
        self._warden_pid: int | None = None
        self._ended: dict[str, Any] | None = None
        self._result: JobResult | None = None
        self._output_exceeded = False
        self._unreceived = bytearray()
        self._stderr_text = bytearray()
        self._stdin = self._stdout = self._stderr = -1
        self._late_s = float("inf")
        self._forget_cancel: Callable[[], None] = lambda: None
        self._task_group = TaskGroup.made(job.limits.processes) if job.bounded_tasks else None
        self.folder, self._folder_fd = folders.create()
        self._control, self._warden_end = socket.socketpair()

    @property
    def threads_only(self) -> bool:
        """Whether the job may start no process: its tasks are to be bounded, and no control group could be made."""
        return self._job.bounded_tasks and self._task_group is None

    @property
    def _steps_back(self) -> bool:
        # What drives a device is measured by the clock of it: nobody goes before it.
        return not self._job.devices

    def begin(self, command: Command) -> None:
        """Write the files and start the command; raises SandboxError, StorageError."""
        limits = self._job.limits
        write_files(self._job, self._folder_fd)
        theirs: list[int] = []
        try:
            if self._talk:
                their_stdin, self._stdin = _pipe()
            else:
                their_stdin = os.open("/dev/null", os.O_RDONLY)
            theirs.append(their_stdin)
            for name in ("_stdout", "_stderr"):
                reading, writing = _pipe()
                setattr(self, name, reading)
                theirs.append(writing)
            for fd in (self._stdin, self._stdout, self._stderr):
                if fd >= 0:
                    os.set_blocking(fd, False)
            self._started_s = time.monotonic()
            confined = () if command.ruleset is None else (command.ruleset,)
            _parent_warden.request([*theirs, self._warden_end.fileno(), *command.passed_on, *confined])
        finally:
            self._warden_end.close()
            for fd in theirs:
                os.close(fd)
        order = {
            "argv": command.argv,
            "environment": command.environment,
            "drop_capabilities": command.drop_capabilities,
            "confined": command.ruleset is not None,
            "own_entry": not self._job.devices,
            "filter": command.system_calls.hex(),
            "in_memory": command.in_memory,
            "seen_as": command.seen_as,
            "folder": str(self.folder),
            "wall_s": limits.wall_s,
            "cpu_s": max(1, int(limits.cpu_s + 0.999)),
            "memory_bytes": limits.memory_bytes,
            "address_space": limits.address_space,
            "file_bytes": limits.file_bytes,
            "work_bytes": limits.work_bytes,
            "processes": limits.processes,
            "task_group": self._task_group.members if self._task_group else "",
            "steps_back": self._steps_back,
            "open_files": limits.open_files,
        }
        self._control.settimeout(PATIENCE_S)
        try:
            warden.send_message(self._control, order)
            answer = warden.receive_message(self._control)
        except OSError as error:
            _parent_warden.go_on()
            raise JobKilledError(f"The warden of a job does not answer: {error}.", "Evaluate again.") from error
        if answer is None:
            raise JobKilledError(f"{command.argv[0]} could not be started: its warden ended.", "Evaluate again.")
        if "failed" in answer:
            raise SandboxError(f"{command.argv[0]} could not be started: {answer['failed']}.")
        self._warden_pid = answer["started"]
        self._forget_cancel = self._job.cancel_token.call_on_cancel(self._order_end)

    # -- talking --

    def send(self, *parts: bytes | memoryview) -> None:
        """Write all parts to the program's stdin, taking in what it writes meanwhile. Raises SessionEndedError."""
        for part in parts:
            rest = memoryview(part).cast("B")
            while rest:
                if self._stdin < 0:
                    raise self._session_ended("reads no more")
                try:
                    rest = rest[os.write(self._stdin, rest) :]
                except BlockingIOError:
                    self._wait(writing=True)
                except BrokenPipeError:
                    self._close_stdin()

    def receive(self, size_bytes: int) -> bytearray:
        """Read exactly `size_bytes` from the program's stdout. Raises SessionEndedError."""
        data = bytearray(size_bytes)
        with memoryview(data) as view:
            filled = self._taken(view)
            while filled < size_bytes:
                over = self._ended is not None  # looked at before the read: the last bytes still count
                count = 0 if self._stdout < 0 else self._receive_into(view[filled:])
                if count == 0 or (count is None and over):
                    raise self._session_ended(f"sent {filled} of the {size_bytes} bytes asked for")
                filled += count or 0
                if count is None or time.monotonic() > self._late_s:
                    self._wait()
        return data

    def _receive_into(self, view: memoryview) -> int | None:
        """Read some of these bytes, or None where there are none yet; with a few of them what else is there."""
        if len(view) >= _AHEAD_BYTES:
            return _read_into(self._stdout, view)
        piece = _read(self._stdout, _AHEAD_BYTES)
        if not piece:
            return None if piece is None else 0
        self._unreceived += piece
        return self._taken(view)

    def _taken(self, view: memoryview) -> int:
        """Take what was read ahead; how many bytes that were."""
        count = min(len(view), len(self._unreceived))
        view[:count] = memoryview(self._unreceived)[:count]
        del self._unreceived[:count]
        return count

    def allow(self, time_s: float) -> None:
        """Give the program so long from now for all that it is then sent and asked for; who is late is ended."""
        self._late_s = time.monotonic() + time_s

    def _session_ended(self, deed: str) -> SessionEndedError:
        # The end of a stream is seen before the news of how the program ended: wait a moment for the better message.
        until = time.monotonic() + GRACE_S
        while self._ended is None and time.monotonic() < until:
            self._wait(writing=True, until_s=until)
        over = limit_hit(self._job.limits, self._understood(), self._output_exceeded)
        how = over or ended_in_words(self._ended)
        return SessionEndedError(f"The program {deed}; it {how}.")

    def _wait(self, writing: bool = False, until_s: float | None = None) -> None:
        """Wait until something can be done, and do what is not the caller's: take in output, stderr and news.

        stdout is only read here when the caller does not read it (`writing`).
        """
        poller = select.poll()
        poller.register(self._control, select.POLLIN)
        if writing and until_s is None and self._stdin >= 0:
            poller.register(self._stdin, select.POLLOUT)
        for fd in (self._stdout, self._stderr):
            if fd >= 0:
                poller.register(fd, select.POLLIN)
        most_s = warden.longest_s(self._job.limits.wall_s, self._steps_back)
        given_up_s = self._started_s + most_s + PATIENCE_S
        pause_s = min(given_up_s, self._late_s, until_s or given_up_s) - time.monotonic()
        # The kernel takes milliseconds as an int, and the process that forks runners may live for years.
        ready = [fd for fd, _ in poller.poll(min(max(0.0, pause_s), _LONGEST_PAUSE_S) * 1000)]
        if self._stderr in ready:
            self._take("_stderr", self._stderr_text)
        if writing and self._stdout in ready:
            self._take("_stdout", self._unreceived)
        if self._control.fileno() in ready:
            self._hear()
        elif time.monotonic() > given_up_s:
            self._give_up("did not end it in time")
        elif time.monotonic() > self._late_s:
            self._late_s = float("inf")
            self._order_end()

    def _take(self, name: str, into: bytearray) -> None:
        piece = _read(getattr(self, name))
        if piece == b"":
            os.close(getattr(self, name))
            setattr(self, name, -1)
        elif piece:
            into += piece
            if len(into) > self._job.limits.output_bytes:
                del into[self._job.limits.output_bytes :]
                self._output_exceeded = True
                self._order_end()
                os.close(getattr(self, name))
                setattr(self, name, -1)

    def _hear(self) -> None:
        try:
            news = warden.receive_message(self._control)
        except OSError as error:
            news = None
            self._give_up(f"does not answer ({error})")
        if news is None:
            self._give_up("vanished")
        assert news is not None
        self._ended = news["ended"]
        if self._ended["left"]:
            raise SandboxError(
                f"{self._ended['left']} processes of a job could not be ended.",
                "They hang in the kernel (a stuck disk or network file system?): restart the machine or container.",
            )

    def _give_up(self, why: str) -> None:
        if self._warden_pid is not None:
            with contextlib.suppress(OSError):
                os.kill(self._warden_pid, 9)  # the parent warden ends what it leaves
        raise JobKilledError(f"The warden of a job {why}.", "Evaluate again.")

    def _order_end(self) -> None:
        with contextlib.suppress(OSError):
            self._control.send(b"e")

    # -- ending --

    def finish(self) -> JobResult:
        """End the program with all its children, remove the work folder, and say how it ended. Can be repeated."""
        return self.conclude(GRACE_S)

    def conclude(self, grace_s: float | None) -> JobResult:
        """As `finish`, after waiting `grace_s` for the program to end by itself (None: until a limit ends it)."""
        if self._result is not None:
            return self._result
        try:
            self._close_stdin()
            until_s = None if grace_s is None else time.monotonic() + grace_s
            while self._ended is None and (until_s is None or time.monotonic() < until_s):
                self._wait(writing=True, until_s=until_s)
            if self._ended is None:
                self._order_end()
            while self._ended is None:
                self._wait(writing=True)
            for name, into in (("_stdout", self._unreceived), ("_stderr", self._stderr_text)):
                before = -1
                while getattr(self, name) >= 0 and len(into) != before:
                    before = len(into)
                    self._take(name, into)
            files = collect_files(self._job, self._folder_fd)
            self._result = self._finished(files)
        finally:
            self.release()
        return self._result

    def _close_stdin(self) -> None:
        if self._stdin >= 0:
            os.close(self._stdin)
            self._stdin = -1

    def release(self) -> None:
        """Let go of everything: the warden ends what still runs and removes the work folder."""
        self._forget_cancel()
        for name in ("_stdin", "_stdout", "_stderr"):
            if getattr(self, name) >= 0:
                os.close(getattr(self, name))
                setattr(self, name, -1)
        if self._folder_fd >= 0:
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_WR)
                while self._warden_pid is not None and self._control.recv(4096):
                    pass  # the warden closes its end when the folder is gone
            warden.remove_folder(str(self.folder))  # and if there was none, or it was killed
            os.close(self._folder_fd)
            self._folder_fd = -1
        if self._task_group is not None:
            self._task_group.close()
        self._control.close()
        self._warden_end.close()

    def _understood(self) -> dict[str, Any] | None:
        """How the job ended, its exit a code from 0 or the negative number of a signal."""
        return self._ended

    def _finished(self, files: dict[str, bytes]) -> JobResult:
        ended = self._understood()
        assert ended is not None
        self._job.spent(ended["used_s"])
        return finished_from(
            self._job.limits,
            ended,
            stdout=bytes(self._unreceived),
            stderr=bytes(self._stderr_text),
            files=files,
            output_exceeded=self._output_exceeded,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()
        else:
            self.release()


def _pipe() -> tuple[int, int]:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    with contextlib.suppress(OSError):  # beyond the user's share of pipe memory it stays small, and works
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return reading, writing


def _read(fd: int, most_bytes: int = PIPE_BYTES) -> bytes | None:
    try:
        return os.read(fd, most_bytes)
    except BlockingIOError:
        return None


def _read_into(fd: int, view: memoryview) -> int | None:
    try:
        return os.readv(fd, [view])
    except BlockingIOError:
        return None
