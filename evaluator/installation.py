"""How this copy of Assay came to this machine, and so which command brings what it lacks.

In a checkout that is `make`; a package that pip installed has no Makefile, and its remedies name pip or this Python.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import Final, Literal

from evaluator import __version__

_ROOT: Final = Path(__file__).parents[1]


def in_checkout() -> bool:
    """Whether this package lies in a checkout of the repository, where `make` works."""
    return all((_ROOT / name).is_file() for name in ("Makefile", "pyproject.toml", "constraints-dev.txt"))


def install_command(extra: Literal["gpu", "nvcc", "service", "triton"]) -> str:
    """The command that installs what an extra of this project holds.

    `gpu` is more than an extra: PyCUDA has no wheel and is built. The version keeps pip from another package of this
    name.
    """
    if in_checkout():
        return {"gpu": "make gpu", "nvcc": "make nvcc", "service": "make demo", "triton": "make triton"}[extra]
    if extra == "gpu":
        return f"{sys.executable} -m evaluator.backends.gpu.device.install"
    return f"{sys.executable} -m pip install 'assay[{extra}]=={__version__}'"


def own_command() -> str:
    """How a user of this Python types the command `assay`, from the working folder: `assay`, `.venv/bin/assay`."""
    beside = Path(sys.executable).with_name("assay")
    found = shutil.which("assay")
    if found is not None and beside.exists() and os.path.samefile(found, beside):
        return "assay"
    if not beside.exists():
        return f"{sys.executable} -m assay"
    return str(beside.relative_to(Path.cwd())) if beside.is_relative_to(Path.cwd()) else str(beside)
