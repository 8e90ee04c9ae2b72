"""What the commands of `assay-train` share, without anything that takes long to import."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from trainer.errors import ConfigurationError

INTERRUPTED: Final = 130
"""The exit code of a command that Ctrl-C or SIGTERM ended."""
PICTURE: Final = "learning.png"
"""The file in a run's folder that shows its curves."""
TUNING: Final = "tuning"
"""The folder in a run's folder with its data and its tuned models."""


@contextlib.contextmanager
def writing(place: Path, setting: str) -> Iterator[None]:
    """Raises ConfigurationError where nothing can be written at `place`, which `setting` says."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigurationError(
            f"{place} cannot be written: {reason}.", f"Give another place: {setting}."
        ) from error


@contextlib.contextmanager
def only_one_in(folder: Path, setting: str, what: str, remedy: str) -> Iterator[None]:
    """Raises ConfigurationError where another process is at the same folder, which `setting` says, with `what`."""
    with writing(folder, setting):
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = (folder.parent / f".{folder.name}.lock").open("w")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigurationError(f"Another {what} is under way in {folder}.", remedy) from None
        yield
