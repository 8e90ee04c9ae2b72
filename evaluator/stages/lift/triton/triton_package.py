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
_OLDEST: Final = ".".join(map(str, OLDEST))


@dataclass(frozen=True)
class TritonPackage:
    """One installed Triton."""

    version: str
    digest: str
    """Changes when its files do: part of every cache key."""


def why_no_triton() -> str | None:
    """Why no Triton of this machine serves, for its operator; None where one does."""
    version, origin = _installed()
    if version is None or origin is None:
        return "Triton is not installed: kernels written in it cannot be graded"
    if _is_too_old(version):
        return f"Triton {version} is installed, and kernels written in it need {_OLDEST} or later"
    return None


@functools.cache
def find_triton() -> TritonPackage:
    """The Triton that this Python imports. Raises LiftRefusedError where there is none that serves."""
    command = install_command("triton")
    version, origin = _installed()
    if version is None or origin is None:
        raise LiftRefusedError(
            Status.UNSUPPORTED,
            "The source is Triton, and the grader has no Triton to compile it with.",
            f"The operator can run `{command}`. It was not judged, so there is no reward.",
        )
    if _is_too_old(version):
        raise LiftRefusedError(
            Status.UNSUPPORTED,
            f"The grader has Triton {version}; Assay compiles with {_OLDEST} or later.",
            f"The operator can run `{command}`. It was not judged, so there is no reward.",
        )
    root = origin.parent
    parts = sorted((*root.glob("_C/*.so"), *root.glob("backends/nvidia/*.py"), *root.glob("compiler/*.py")))
    stamps = [f"{path.relative_to(root)} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in parts]
    return TritonPackage(version, hashlib.sha256("\n".join((version, *stamps)).encode()).hexdigest())


def _installed() -> tuple[str | None, Path | None]:
    """The version and the `__init__.py` of the Triton that this Python would import."""
    try:
        spec = importlib.util.find_spec("triton")
        version = importlib.metadata.version("triton")
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None, None
    return version, Path(spec.origin) if spec is not None and spec.origin is not None else None


def _is_too_old(version: str) -> bool:
    return tuple(int(part) for part in version.split("+")[0].split(".")[:2]) < OLDEST
