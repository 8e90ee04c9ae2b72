"""A disk of one's own, that fills up, slows down, hangs, or lets nobody write any more; and is well again."""

import contextlib
import os
import subprocess
import tempfile
import time
from pathlib import Path

SIZE_BYTES = 320 << 20
WRITES_PER_S = 40
"""Of a slow disk: an old one that others use too."""
TROUBLED_S = 4.0
_THROTTLE = Path("/sys/fs/cgroup/blkio/blkio.throttle.write_iops_device")


def _run(*command, check=True):
    return subprocess.run(command, capture_output=True, check=check, text=True).returncode == 0


class Disk:
    """An ext4 file system in a file, mounted on `folder`. Each trouble lasts some seconds."""

    def __init__(self):
        # Not in a test's own folder: the paths of sockets are to be short, and PostgreSQL's user is to get there.
        self.folder = Path(tempfile.mkdtemp(prefix="assay-disk-"))
        self._image = self.folder.with_suffix(".img")
        self._ballast = self.folder / "ballast"
        with self._image.open("wb") as image:
            image.truncate(SIZE_BYTES)
        # Nothing is kept back for root, and there is a journal, as on disks of servers.
        _run("mkfs.ext4", "-q", "-m", "0", str(self._image))

    def mount(self):
        """False where this user may not."""
        mounted = _run("mount", "-o", "loop", str(self._image), str(self.folder), check=False)
        # A lost disk may have it again, as all that nobody has asked it to write.
        self._ballast.unlink(missing_ok=True)
        return mounted

    def unmount(self):
        """False while something on it is open."""
        return _run("umount", str(self.folder), check=False)

    def remove(self):
        _run("fsfreeze", "-u", str(self.folder), check=False)
        _run("umount", "-l", str(self.folder), check=False)
        self._image.unlink()
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def fill(self, chance):
        """To the last byte, and again and again, since whoever removes a file of its own makes room for a moment."""
        until_s = time.monotonic() + chance.uniform(0.5, 1.5) * TROUBLED_S
        with self._ballast.open("ab", buffering=0) as file:
            while time.monotonic() < until_s:
                for size in (1 << 20, 1 << 12, 1):
                    with contextlib.suppress(OSError):
                        while file.write(b"\0" * size) == size:
                            pass
                time.sleep(0.02)
        self._ballast.unlink()

    def hang(self, chance):
        """Whoever writes waits, and cannot even be killed."""
        _run("fsfreeze", "-f", str(self.folder))
        time.sleep(chance.uniform(0.5, 1.5) * TROUBLED_S)
        _run("fsfreeze", "-u", str(self.folder))

    @staticmethod
    def can_be_slow():
        return _THROTTLE.exists()

    def slow_down(self, chance):
        numbers = os.stat(self.folder).st_dev
        device = f"{os.major(numbers)}:{os.minor(numbers)}"
        _THROTTLE.write_text(f"{device} {WRITES_PER_S}")
        try:
            time.sleep(chance.uniform(1.0, 3.0) * TROUBLED_S)
        finally:
            _THROTTLE.write_text(f"{device} 0")

    def let_nobody_write(self):
        """What ext4 does after an error of the device: read only at once, also for files that are open."""
        _run("mount", "-o", "remount,abort", str(self.folder))


@contextlib.contextmanager
def own_disk():
    """A disk that is mounted; None where this user may not mount one."""
    disk = Disk()
    try:
        yield disk if disk.mount() else None
    finally:
        disk.remove()
