"""The Triton of this machine: whether it is installed, and which it is."""

import functools
import hashlib
import importlib.metadata
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from common.contract import Status
from evaluator.installation import install_command
from evaluator.stages.lift.binding import LiftRefusedError

OLDEST: Final = (3, 5)
"""The first that writes PTX for the ptxas of CUDA 13."""


@dataclass(frozen=True)
class TritonPackage:
    """One installed Triton."""

    version: str
    digest: str
    """Changes when its files do: part of every cache key."""


@functools.cache
def find_triton() -> TritonPackage:
    """The Triton that this Python imports. Raises LiftRefusedError where there is none that serves."""
    command = install_command("triton")
    try:
        spec = importlib.util.find_spec("triton")
        version = importlib.metadata.version("triton")
    except (importlib.metadata.PackageNotFoundError, ValueError):
        spec = None
    if spec is None or spec.origin is None:
        raise LiftRefusedError(
            Status.UNSUPPORTED,
            "The source is Triton, and the grader has no Triton to compile it with.",
            f"The operator can run `{command}`. It was not judged, so there is no reward.",
        )
    numbers = tuple(int(part) for part in version.split("+")[0].split(".")[:2])
    if numbers < OLDEST:
        raise LiftRefusedError(
            Status.UNSUPPORTED,
            f"The grader has Triton {version}; Assay compiles with {'.'.join(map(str, OLDEST))} or later.",
            f"The operator can run `{command}`. It was not judged, so there is no reward.",
        )
    root = Path(spec.origin).parent
    parts = sorted((*root.glob("_C/*.so"), *root.glob("backends/nvidia/*.py"), *root.glob("compiler/*.py")))
    stamps = [f"{path.relative_to(root)} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in parts]
    return TritonPackage(version, hashlib.sha256("\n".join((version, *stamps)).encode()).hexdigest())
