"""The CUDA compiler of this machine: where it is, what it is, and what it can compile for.

Looked for in this order: `ASSAY_NVCC`, `CUDA_HOME` and `CUDA_PATH`, `PATH`, `/usr/local/cuda*`, and the PyPI wheels
in this Python's site-packages (`nvidia/cu*/bin/nvcc`; they need no extra flags: nvcc finds headers beside itself).
"""

import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from common.file_replacement import replace_file
from common.gpu_limits import GPU_LIMITS, limits_of
from evaluator.errors import ToolchainMissingError
from evaluator.installation import install_command
from evaluator.sandbox.retry import run_program

OLDEST: Final = (12, 4)
_REMEDY: Final = (
    f"run `{install_command('nvcc')}`, which installs the compiler from PyPI, "
    "or set ASSAY_NVCC to an nvcc of CUDA 12.4-13.x"
)
_PROBE_S: Final = 60.0
_CACHE_VERSION: Final = 2
"""Of what is remembered; version 1 may hold what a program said until someone killed it."""


@dataclass(frozen=True)
class Toolchain:
    """One CUDA toolkit with its host compiler."""

    nvcc: Path
    """The real binary, never a wrapper script."""
    cicc: Path
    ptxas: Path
    readable: tuple[Path, ...]
    """Folders that a sandbox must be able to read beside the system's own libraries."""
    headers: tuple[Path, ...]
    """Folders whose files a source may include: the toolkit's and the host compiler's."""
    version: str
    """For example `13.0.88`."""
    digest: str
    """SHA-256 over the compiler's binaries, headers and host compiler: part of every cache key."""
    host_compiler: Path
    host_compiler_version: str
    architectures: tuple[str, ...]
    """What nvcc can make code for, for example `sm_80`; names with an `a` are accepted where the plain one is."""

    @property
    def label(self) -> str:
        """Compiler and version, as verdicts name it: `nvcc 13.0.88`."""
        return f"nvcc {self.version}"

    def supports(self, arch: str) -> bool:
        """Whether nvcc can compile for `arch` (`sm_80`, `sm_90a`)."""
        return arch in self.architectures or (
            arch.endswith("a") and int(arch[3:-1]) >= 90 and arch[:-1] in self.architectures
        )

    def why_not(self, arch: str) -> str | None:
        """Why nothing can be compiled for `arch`; None where it can be."""
        if not self.supports(arch):
            return f"{self.label} cannot compile for {arch}; it can for {', '.join(self.architectures)}."
        try:
            limits_of(arch)
        except KeyError:
            known = ", ".join(f"sm_{capability}" for capability in GPU_LIMITS)
            return f"{self.label} knows {arch}, whose limits this release of Assay does not know; it knows {known}."
        return None


@dataclass(frozen=True)
class Beside:
    """A source in the form in which it is compiled: the same lines, with files of ours beside it."""

    text: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Plain names and contents of headers, which the text may include."""
    flags: tuple[str, ...] = ()
    """For nvcc, after those of every source."""
    described: bool = True
    """Whether the names of kernels' parameters are worth another run of the compiler."""
    with_host: bool = False
    """Whether the host's object file is wanted as well (`Compiled.host_object`), which takes less than by itself."""


@functools.cache
def find_toolchain() -> Toolchain:
    """The toolchain of this machine, found once for each process. Raises ToolchainMissingError."""
    host = _host_compiler()
    first_fault: ToolchainMissingError | None = None
    for candidate, origin in _candidates():
        if not (candidate.is_file() and os.access(candidate, os.X_OK)):
            if origin == "ASSAY_NVCC":
                raise ToolchainMissingError(f"ASSAY_NVCC names {candidate}, which is not a program", _REMEDY)
            continue
        try:
            return _describe(_behind_wrapper(candidate), origin, host)
        except ToolchainMissingError as fault:
            if origin == "ASSAY_NVCC":
                raise
            # One that is too old or incomplete must not hide a good one further down.
            first_fault = first_fault or fault
    raise first_fault or ToolchainMissingError("no CUDA compiler (nvcc) was found on this machine", _REMEDY)


def _candidates() -> Iterator[tuple[Path, str]]:
    if named := os.environ.get("ASSAY_NVCC"):
        yield Path(named), "ASSAY_NVCC"
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if root := os.environ.get(variable):
            yield Path(root, "bin/nvcc"), variable
    if on_path := shutil.which("nvcc"):
        yield Path(on_path), "PATH"
    for folder in (Path("/usr/local/cuda"), *sorted(Path("/usr/local").glob("cuda-*"), key=_natural, reverse=True)):
        yield folder / "bin/nvcc", "/usr/local"
    for packages in dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib")):
        for wheel in sorted(Path(packages).glob("nvidia/cu*/bin/nvcc"), key=_natural, reverse=True):
            yield wheel, "site-packages"


def _natural(path: Path) -> list[tuple[int, str]]:
    return [(int(digits or 0), text) for text, digits in re.findall(r"(\D*)(\d*)", str(path))]


def _behind_wrapper(nvcc: Path) -> Path:
    """The real binary behind a wrapper script, which nvcc itself tells (`_HERE_` of a dry run)."""
    nvcc = nvcc.resolve()
    with nvcc.open("rb") as program:
        if program.read(4) == b"\x7fELF":
            return nvcc
    stamps = {str(nvcc): _stamp(nvcc)}
    facts = _remembered(nvcc, stamps)
    if facts is None:
        here = re.search(r"^#\$ _HERE_=(.+)$", _ask(nvcc, "--dryrun", "-E", "-x", "cu", os.devnull), re.MULTILINE)
        if here is None:
            raise ToolchainMissingError(f"{nvcc} does not behave like nvcc", _REMEDY)
        facts = {"nvcc": str(Path(here[1], "nvcc").resolve())}
        _remember(nvcc, stamps, facts)
    real = Path(facts["nvcc"])
    if not real.is_file():
        raise ToolchainMissingError(f"{nvcc} stands for {real}, which does not exist", _REMEDY)
    return real


def _host_compiler() -> Path:
    if named := os.environ.get("CXX"):
        if found := shutil.which(named):
            return Path(found).resolve()
        raise ToolchainMissingError(
            f"CXX names {named}, which is not a program", "set CXX to a C++ compiler, or unset it"
        )
    for name in ("g++", "c++", "clang++"):
        if found := shutil.which(name):
            return Path(found).resolve()
    raise ToolchainMissingError(
        "nvcc needs a host C++ compiler, and there is none on PATH",
        "install one, for example `apt-get install g++`",
    )


def _describe(nvcc: Path, origin: str, host: Path) -> Toolchain:
    root = nvcc.parent.parent
    cicc, ptxas = root / "nvvm/bin/cicc", nvcc.parent / "ptxas"
    runtime = next((path for path in _runtime_headers(root) if path.is_file()), None)
    missing = [str(path) for path in (cicc, ptxas) if not path.is_file()]
    if missing or runtime is None:
        what = ", ".join([*missing, *([] if runtime else ["cuda_runtime.h"])])
        raise ToolchainMissingError(
            f"the CUDA compiler found through {origin} ({nvcc}) is not complete: no {what}", _REMEDY
        )
    stamps = {str(path): _stamp(path) for path in _identity(root, nvcc, cicc, ptxas, runtime, host)}
    facts = _remembered(nvcc, stamps)
    if facts is None:
        facts = _examined(nvcc, runtime.parent, host, list(stamps))
        _remember(nvcc, stamps, facts)
    major, minor = (int(part) for part in facts["version"].split(".")[:2])
    if (major, minor) < OLDEST:
        raise ToolchainMissingError(f"{nvcc} is CUDA {major}.{minor}; Assay works with CUDA 12.4 to 13.x", _REMEDY)
    headers = dict.fromkeys((runtime.parent.resolve(), *(Path(folder) for folder in facts["host_headers"])))
    return Toolchain(
        nvcc=nvcc,
        cicc=cicc,
        ptxas=ptxas,
        readable=_outside_system((root, runtime.parent.resolve(), _prefix(host), *headers)),
        headers=tuple(headers),
        version=facts["version"],
        digest=facts["digest"],
        host_compiler=host,
        host_compiler_version=facts["host_version"],
        architectures=tuple(facts["architectures"]),
    )


def _prefix(host: Path) -> Path:
    """Where a host compiler has its own programs, headers and libraries, if it is not the system's."""
    prefix = host.parent.parent if host.parent.name == "bin" else host.parent
    return host.parent if prefix in (Path("/"), Path("/usr")) else prefix


def _runtime_headers(root: Path) -> Iterator[Path]:
    yield from sorted(root.glob("targets/*-linux/include/cuda_runtime.h"), reverse=True)
    yield root / "include/cuda_runtime.h"


def _identity(root: Path, nvcc: Path, cicc: Path, ptxas: Path, runtime: Path, host: Path) -> Iterator[Path]:
    """Files and folders that change when the toolchain does: enough to notice it without reading everything."""
    yield from (nvcc, cicc, ptxas, host, runtime, runtime.parent)
    yield from sorted(root.glob("nvvm/libdevice/*.bc"))
    yield from (
        path
        for path in (nvcc.with_name("nvcc.profile"), runtime.parent / "crt", Path("/usr/include"))
        if path.exists()
    )


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_mtime_ns, status.st_size]


def _outside_system(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """The folders among `paths` that no other one contains, without those that every sandbox shows anyway."""
    system = (Path("/usr/bin"), Path("/usr/lib"), Path("/usr/include"), Path("/lib"), Path("/bin"))
    kept: list[Path] = []
    for path in sorted(dict.fromkeys(path.resolve() for path in paths), key=lambda path: len(path.parts)):
        if not any(path.is_relative_to(folder) for folder in (*system, *kept)) and path.is_dir():
            kept.append(path)
    return tuple(kept)


def _examined(nvcc: Path, headers: Path, host: Path, identity: list[str]) -> dict[str, Any]:
    version = re.search(r"\bV(\d+\.\d+\.\d+)", _ask(nvcc, "--version"))
    if version is None:
        raise ToolchainMissingError(f"{nvcc} does not say its version", _REMEDY)
    host_says = _ask(host, "-E", "-v", "-x", "c++", os.devnull)
    searched = re.search(r"#include <\.\.\.> search starts here:\n(.*?)End of search list", host_says, re.DOTALL)
    if searched is None:
        raise ToolchainMissingError(
            f"the host C++ compiler {host} does not work", "reinstall it: `apt-get install g++`"
        )
    host_version = _ask(host, "--version").splitlines()[0]
    digest = hashlib.sha256(f"{version[1]}\n{host_version}\n{searched[1]}".encode())
    for path in (Path(name) for name in identity):
        if path.is_file():
            digest.update(hashlib.file_digest(path.open("rb"), "sha256").digest())
    for path in sorted(path for path in headers.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(headers)).encode() + hashlib.sha256(path.read_bytes()).digest())
    return {
        "version": version[1],
        "digest": digest.hexdigest(),
        "host_version": host_version,
        "host_headers": [str(Path(line.strip()).resolve()) for line in searched[1].splitlines() if line.strip()],
        "architectures": sorted(
            set(re.findall(r"\bsm_\d+\b", _ask(nvcc, "--list-gpu-code"))), key=lambda arch: int(arch[3:])
        ),
    }


def _ask(program: Path, *arguments: str) -> str:
    """What `program` prints, both streams."""
    try:
        told = run_program(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PROBE_S,
            cwd=tempfile.gettempdir(),
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainMissingError(f"{program} could not be run: {error}", _REMEDY) from error
    if told.returncode != 0:  # what it said may be a part of what it had to say, and is remembered
        said = told.stdout.decode(errors="replace").strip()[-300:]
        raise ToolchainMissingError(f"{program} {' '.join(arguments)} ended with {told.returncode}: {said}", _REMEDY)
    return str(told.stdout.decode(errors="replace"))


def _memory(nvcc: Path) -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "assay" / f"toolchain-{hashlib.sha256(str(nvcc).encode()).hexdigest()[:16]}.json"


def _remembered(nvcc: Path, stamps: dict[str, list[int]]) -> dict[str, Any] | None:
    """What an earlier process found out, while no file of the toolchain has changed since."""
    try:
        known = json.loads(_memory(nvcc).read_text())
        matches = known["format"] == _CACHE_VERSION and known["stamps"] == stamps
        return dict(known["facts"]) if matches else None
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):  # RuntimeError: a user without a home
        return None


def _remember(nvcc: Path, stamps: dict[str, list[int]], facts: dict[str, Any]) -> None:
    try:
        path = _memory(nvcc)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps({"format": _CACHE_VERSION, "stamps": stamps, "facts": facts}))
    except (OSError, RuntimeError):
        return  # only costs the next process the time to look again
