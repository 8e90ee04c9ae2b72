"""The PyTorch of this Python, as far as a compiler needs to know: found without importing it."""

import functools
import importlib.metadata
import importlib.util
import re
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from common.contract import Status
from evaluator.errors import ToolchainMissingError
from evaluator.stages.lift.binding import LiftRefusedError

_STANDARD: Final = re.compile(r"'-std=(c\+\+\d\d)'")
_CUDA: Final = re.compile(r"^cuda\s*(?::[^=]*)?=\s*['\"](\d+)\.", re.MULTILINE)
_REMEDY: Final = "The operator can install them. It was not judged, so there is no reward."


@dataclass(frozen=True)
class TorchPackage:
    """What extensions are compiled against and linked with."""

    root: Path
    version: str
    standard: str
    """Of C++, for which its headers are written: `c++17`."""
    cuda: str | None
    """The major version of the CUDA that it is built with; None for a build without."""

    @property
    def headers(self) -> tuple[Path, ...]:
        """Where headers are searched, as `torch.utils.cpp_extension.include_paths` says it, and those of CUDA's
        libraries where they came from PyPI.
        """
        return (
            self.root / "include",
            self.root / "include/torch/csrc/api/include",
            Path(sysconfig.get_path("include")),
            *sorted(self.root.parent.glob("nvidia/*/include")),
        )

    @property
    def runtime(self) -> Path | None:
        """The CUDA runtime that it loads, where that came from PyPI."""
        return next(iter(sorted(self.root.parent.glob(f"nvidia/*/lib/libcudart.so.{self.cuda}"))), None)

    def readable(self) -> Iterator[Path]:
        """Folders that the compiler reads."""
        yield from (path for path in (self.root / "include", self.root / "lib", *self.headers[2:]) if path.is_dir())
        if self.runtime is not None:
            yield self.runtime.parent


@functools.cache
def find_torch() -> TorchPackage:
    """Raises LiftRefusedError where extensions cannot be compiled against it."""
    try:
        spec = importlib.util.find_spec("torch")
        version = importlib.metadata.version("torch")
    except (importlib.metadata.PackageNotFoundError, ValueError):
        spec = None
    if spec is None or spec.origin is None:
        raise LiftRefusedError(
            Status.UNSUPPORTED, "The grader has no PyTorch to compile an extension against.", _REMEDY
        )
    root = Path(spec.origin).parent
    told = (root / "utils/cpp_extension.py").read_text(encoding="utf-8")
    standard = _STANDARD.search(told)
    if standard is None:
        raise ToolchainMissingError(f"PyTorch {version} does not say which C++ it needs", "Please report it.")
    needed = (root / "include/torch/extension.h", Path(sysconfig.get_path("include"), "Python.h"))
    missing = [path for path in needed if not path.is_file()]
    if missing:
        what = " and ".join(path.name for path in missing)
        raise LiftRefusedError(Status.UNSUPPORTED, f"The grader lacks the headers {what}.", _REMEDY)
    cuda = _CUDA.search((root / "version.py").read_text(encoding="utf-8"))
    return TorchPackage(root, version, standard[1], cuda[1] if cuda else None)
