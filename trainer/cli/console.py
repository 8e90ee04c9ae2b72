"""What the commands of `assay-train` share, without anything that takes long to import."""

import contextlib
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
