"""What the machine's owner may set, each as a variable `ASSAY_…`.

What a caller may set for one evaluation is `common.contract.Settings`.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from evaluator.errors import UsageError

_SANDBOXES = ("auto", "bubblewrap", "process")


@dataclass(frozen=True)
class MachineSettings:
    """The settings of this machine."""

    data_dir: Path
    """Caches and work folders (`ASSAY_DATA_DIR`; else `assay` in the user's cache folder)."""
    cache_bytes: int = 4 << 30
    """Capacity of the compilation cache (`ASSAY_CACHE_BYTES`)."""
    sandbox: Literal["auto", "bubblewrap", "process"] = "auto"
    """Isolation of untrusted work (`ASSAY_SANDBOX`)."""

    @staticmethod
    def from_environment() -> "MachineSettings":
        """Read the variables. Raises UsageError for a value that cannot be."""
        cache_home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        try:
            data_dir = Path(os.environ.get("ASSAY_DATA_DIR") or f"{cache_home}/assay").expanduser()
        except RuntimeError as error:  # a user without a home, as in many containers
            raise UsageError("This user has no home folder for caches.", "Set ASSAY_DATA_DIR to a folder.") from error
        sandbox = os.environ.get("ASSAY_SANDBOX", "auto")
        if sandbox not in _SANDBOXES:
            raise UsageError(f"ASSAY_SANDBOX is {sandbox!r}.", f"Set it to one of {', '.join(_SANDBOXES)}.")
        text = os.environ.get("ASSAY_CACHE_BYTES", str(4 << 30))
        if not re.fullmatch("[0-9]{1,18}", text) or int(text) < 1 << 20:
            raise UsageError(
                f"ASSAY_CACHE_BYTES is {text[:100]!r}.", "Set it to a number of bytes, at least 1048576."
            )
        kind = cast(Literal["auto", "bubblewrap", "process"], sandbox)
        return MachineSettings(data_dir.absolute(), int(text), kind)
