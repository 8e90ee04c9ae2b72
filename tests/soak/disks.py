"""A small disk of one's own, that a test fills and frees again."""

import contextlib
import os
import subprocess
import time
from pathlib import Path

FULL_S = 4.0


@contextlib.contextmanager
def small_disk(folder, size_bytes=192 << 20):
    """`folder` on a tmpfs of this size. Yields False where this user may not mount one."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes},mode=0700", "assay-soak", str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


class Filling:
    """Fills the disk under `folder` to the last byte, and frees it a few seconds later."""

    def __init__(self, folder):
        self._file = Path(folder, "ballast")

    def fill(self, chance):
        # Again and again, since whoever removes a file of its own makes room for a moment.
        until_s = time.monotonic() + chance.uniform(0.5, 1.5) * FULL_S
        with self._file.open("ab", buffering=0) as file:
            while time.monotonic() < until_s:
                for size in (1 << 20, 1 << 12, 1):
                    with contextlib.suppress(OSError):
                        while file.write(b"\0" * size) == size:
                            pass
                time.sleep(0.02)
        self._file.unlink()
