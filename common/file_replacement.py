"""Files replaced in one step: who reads one finds what was there before or all that is new, whatever dies then.

What is appended to one is there as a whole or not at all, so long as the process lives.
"""

import contextlib
import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

ASIDE = "new-"
"""How the names begin that files have until they are whole."""


def replace_file(
    path: Path, content: str | bytes | Iterable[bytes], *, on_disk: bool = False, aside: Path | None = None
) -> None:
    """Put `content` (text as UTF-8) in the place of any file at `path`. Raises OSError, and leaves nothing beside it.

    `on_disk`: also after a loss of power it is the old file or the whole new one. `aside`: an existing folder of the
    same file system in which it is written; else that of `path`.
    """
    parts = [content.encode()] if isinstance(content, str) else [content] if isinstance(content, bytes) else content

    def write(file: BinaryIO) -> None:
        for part in parts:
            file.write(part)

    replace_file_with(path, write, on_disk=on_disk, aside=aside)


def replace_file_with(
    path: Path, write: Callable[[BinaryIO], object], *, on_disk: bool = False, aside: Path | None = None
) -> None:
    """The same for what `write` makes of an empty file, opened for binary writing; what it raises goes on."""
    new = (aside or path.parent) / f"{ASIDE}{secrets.token_hex(8)}"
    try:
        # Not a temporary file of the standard library's: only its owner could read it.
        with new.open("xb") as file:
            write(file)
            if on_disk:
                file.flush()
                os.fsync(file.fileno())
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise


def append_to_file(path: Path, content: bytes) -> None:
    """Append `content`: all of it, or nothing where that fails, as on a disk that is full. Raises OSError.

    For one writer at a time. Of a process that is killed meanwhile a part may stay.
    """
    before = path.stat().st_size if path.exists() else 0
    try:
        with path.open("ab") as file:
            file.write(content)
    except BaseException:
        # Only once it is closed: what is still in its buffer would be written then.
        with contextlib.suppress(OSError):
            os.truncate(path, before)
        raise
