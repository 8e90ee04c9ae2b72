"""Locks of files that nobody waits for: what someone else holds is left to them."""

import fcntl
from typing import Protocol


class _HasDescriptor(Protocol):
    def fileno(self) -> int:
        """That of an open file."""


def lock_unless_held(file: int | _HasDescriptor, *, shared: bool = False) -> bool:
    """Lock an open file until it is closed, unless someone else holds it; whether it is locked now.

    `shared`: as others may hold it too who ask for it so. Raises OSError for anything but a lock that is held.
    """
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
