"""The file at which a referee listens, for this user alone, and whether it is still there.

A referee whose data folder was removed, or in whose place another one listens, can be reached by nobody.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from evaluator.backends.gpu.runner.channel import socket_address

_WAITING: Final = 1024
"""Graders that may wait for a referee at the same time."""


@dataclass(frozen=True)
class SocketFile:
    """A socket that listens, and the file by which it is found."""

    listener: socket.socket
    path: Path
    device: int
    inode: int

    def is_there(self) -> bool:
        """Whether the file is this socket's, so that graders can find it."""
        with suppress(OSError):
            found = self.path.stat()
            return (found.st_dev, found.st_ino) == (self.device, self.inode)
        return False


@contextmanager
def listening_at(path: Path) -> Iterator[SocketFile]:
    """Listen at `path`, in the place of what was there; the file is removed at the end, unless it is another's by
    then. Raises OSError.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        path.unlink(missing_ok=True)
        old_mask = os.umask(0o177)
        try:
            with socket_address(path) as address:
                listener.bind(address)
        finally:
            os.umask(old_mask)
        listener.listen(_WAITING)
        made = path.stat()
        file = SocketFile(listener, path, made.st_dev, made.st_ino)
        try:
            yield file
        finally:
            if file.is_there():
                path.unlink(missing_ok=True)
