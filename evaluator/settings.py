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
    gpu: str = ""
    """The GPU to grade on, by UUID or number (`ASSAY_GPU`); empty takes the first."""
    jobs_per_runner: int = 1
    """How many programs one CUDA context serves (`ASSAY_JOBS_PER_RUNNER`); 1 gives each its own."""
    runners_ahead: int = 2
    """How many contexts are kept ready (`ASSAY_RUNNERS_AHEAD`)."""
    referee_idle_s: float = 600.0
    """How long a GPU's referee waits for the next job before it ends (`ASSAY_REFEREE_IDLE_S`)."""

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
        return MachineSettings(
            data_dir.absolute(),
            _number("ASSAY_CACHE_BYTES", 4 << 30, 1 << 20, "a number of bytes"),
            cast(Literal["auto", "bubblewrap", "process"], sandbox),
            os.environ.get("ASSAY_GPU", ""),
            _number("ASSAY_JOBS_PER_RUNNER", 1, 1, "a number of jobs"),
            _number("ASSAY_RUNNERS_AHEAD", 2, 1, "a number of contexts"),
            _number("ASSAY_REFEREE_IDLE_S", 600, 1, "a number of seconds"),
        )


def _number(variable: str, default: int, least: int, what: str) -> int:
    text = os.environ.get(variable, str(default))
    if not re.fullmatch("[0-9]{1,18}", text) or int(text) < least:
        raise UsageError(f"{variable} is {text[:100]!r}.", f"Set it to {what}, at least {least}.")
    return int(text)
