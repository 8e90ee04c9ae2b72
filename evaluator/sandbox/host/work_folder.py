"""The work folder of a job on this machine: made for it alone, filled, read, and removed once its maker is dead."""

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import time
from pathlib import Path

from evaluator.errors import StorageError
from evaluator.file_lock import lock_unless_held
from evaluator.sandbox.host import warden
from evaluator.sandbox.sandbox import Job


def storage_fault(error: OSError, place: Path | str) -> StorageError:
    """The fault for a folder of ours that cannot be written."""
    remedy = "Free some space there" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "Make it writable"
    return StorageError(
        f"The work folder of a job could not be written in {place}: {error.strerror}.",
        f"{remedy}, or choose another folder with ASSAY_DATA_DIR.",
    )


def check_executable(root: Path) -> None:
    """Raise StorageError where nothing that lies under `root` can be run: each compile would fail there, and seem to
    be the source's fault.
    """
    try:
        forbidden = os.statvfs(root).f_flag & os.ST_NOEXEC
    except OSError as error:
        raise storage_fault(error, root) from error
    if forbidden:
        raise StorageError(
            f"Jobs cannot run what is compiled in {root}: its file system is mounted with `noexec`.",
            "Choose a folder on another file system with ASSAY_DATA_DIR, or mount this one with `exec`.",
        )


class WorkFolders:
    """Fresh folders for jobs under one root; a lock tells the living from what a killed grader left behind.

    A folder's name says who made it (`job-PID-STARTTIME-RANDOM`); its lock (held by the open folder, so by nobody
    once the grader is dead) decides, which also holds where several containers share the root.
    """

    SETTLED_S = 10.0
    """Younger folders are left alone: their maker may be about to lock them."""
    REAP_EVERY_S = 60.0
    """A job removes its own folder, also where its parent dies; those of killed jobs are removed so often at most."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._reaped_s = time.monotonic()
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._reap()
        except OSError as error:
            raise storage_fault(error, root) from error

    def create(self) -> tuple[Path, int]:
        """A new, empty, locked folder, and a descriptor of it; closing the descriptor gives up the lock."""
        if time.monotonic() - self._reaped_s > self.REAP_EVERY_S:
            self._reaped_s = time.monotonic()
            self._reap()
        with open("/proc/self/stat", encoding="latin-1") as own:
            start_time = own.read().rpartition(")")[2].split()[19]
        folder = self.root / f"job-{os.getpid()}-{start_time}-{secrets.token_hex(8)}"
        try:
            # Who cleans temporary folders and caches may have removed it meanwhile.
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700)
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            raise storage_fault(error, self.root) from error
        return folder, descriptor

    def _reap(self) -> None:
        for folder in self.root.glob("job-*"):
            with contextlib.suppress(OSError):
                if time.time() - folder.lstat().st_mtime < self.SETTLED_S:
                    continue
                descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                try:
                    if lock_unless_held(descriptor):
                        warden.remove_folder(str(folder))
                finally:
                    os.close(descriptor)


def write_files(job: Job, descriptor: int) -> None:
    """Write the job's files into its folder; raises StorageError."""
    for name, content in job.files.items():
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with open(os.open(name, flags, 0o700, dir_fd=descriptor), "wb") as file:
                file.write(content)
        except OSError as error:
            raise storage_fault(error, f"file {name!r}") from error


def collect_files(job: Job, descriptor: int) -> dict[str, bytes]:
    """Bring back the files that the job was to leave: regular ones of bounded size only, no link followed."""
    found = {}
    for name in job.collect:
        with contextlib.suppress(OSError):
            # O_NONBLOCK: opening a fifo must not wait for someone to write into it.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            with open(os.open(name, flags, dir_fd=descriptor), "rb") as file:
                status = os.fstat(file.fileno())
                # A file with a second name may be someone else's, linked in.
                own = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
                if own and status.st_size <= job.limits.file_bytes:
                    found[name] = file.read(job.limits.file_bytes)
    return found
