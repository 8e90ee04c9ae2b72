"""What the GPU backend needs from PyPI, and how it gets onto a machine: `make gpu`.

PyCUDA has no wheel on PyPI. It is built here against CUDA's headers, which PyPI has (`nvidia/cu13/include` in
site-packages), so that a machine needs only the NVIDIA driver, a C++ compiler and Python's headers: no CUDA toolkit.
At link time a stand-in takes the place of the driver's `libcuda.so.1`; it holds nothing but the name, by which the
loader finds the real one later. So the same build works on a machine with the driver and in an image without it.

Nothing is imported but the standard library and what says how Assay was installed, and no CUDA is initialised in
this process.
"""

import argparse
import ctypes
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from evaluator.installation import install_command
from evaluator.python_command import this_python

CUDA: Final = (13, 0)
"""The CUDA release that the packages of the extra `gpu` are made for; the driver must serve it."""
DRIVER: Final = "580"
"""The first branch of the driver that serves it (CUDA 13.0 release notes, table 3)."""

_NEEDED_FREE_BYTES: Final = 10 << 30
_BUILD_S: Final = 1800.0
_TAIL_LINES: Final = 25
_CXX: Final = ("g++", "c++", "clang++")


class InstallError(Exception):
    """Why the installation cannot go on, in words for the person at the terminal."""


@dataclass(frozen=True)
class Package:
    """One package that the GPU backend needs, as it is in this environment."""

    name: str
    version: str | None
    """None: not installed."""
    cuda: str | None
    """The CUDA release it was made for, for example `13.0`, where the package says so; `none`: torch for CPUs."""


def packages() -> tuple[Package, ...]:
    """PyCUDA, torch, cuda-bindings and nvidia-ml-py as they are installed here; none of them is imported."""
    return (
        Package("pycuda", _version("pycuda"), None),
        Package("torch", _version("torch"), _cuda_of_torch()),
        Package("cuda-bindings", _version("cuda-bindings"), _release(_version("cuda-bindings"))),
        Package("nvidia-ml-py", _version("nvidia-ml-py"), None),
    )


def missing() -> tuple[str, ...]:
    """Names of those that are not installed."""
    return tuple(package.name for package in packages() if package.version is None)


def requirements(extra: str = "gpu") -> tuple[str, ...]:
    """What an extra of this project asks for, as pip takes it: `pycuda>=2026.1`."""
    declared = importlib.metadata.requires("assay") or []
    found = (re.fullmatch(rf"(.+?)\s*;\s*extra == ['\"]{extra}['\"]", line) for line in declared)
    return tuple(match[1] for match in found if match)


def driver_cuda() -> tuple[int, int] | None:
    """The newest CUDA release that this machine's driver serves, (13, 0); None where there is no driver."""
    try:
        version = ctypes.c_int()
        if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version)):
            return None
    except (OSError, AttributeError):
        return None
    return version.value // 1000, version.value % 1000 // 10


def fault_of_pycuda() -> str | None:
    """Why `import pycuda._driver` fails here; None when it works, or fails for want of the driver only.

    A child process tries, because importing links the driver into the process.
    """
    tried = _child(this_python("-c", "import pycuda._driver"))
    if tried.returncode == 0 or "libcuda.so.1" in tried.stdout:
        return None
    return tried.stdout.strip().splitlines()[-1] if tried.stdout.strip() else f"exit status {tried.returncode}"


def cuda_of_pycuda() -> str | None:
    """The CUDA release that PyCUDA was built for, `13.0`; None where it cannot be loaded, as without a driver."""
    asked = _child(this_python("-c", "import pycuda._driver as d; print('{}.{}'.format(*d.get_version()))"))
    return asked.stdout.strip() if asked.returncode == 0 and re.fullmatch(r"\d+\.\d+\s*", asked.stdout) else None


def main(arguments: list[str] | None = None) -> int:
    """Install the extra `gpu` into this Python's environment. Exit status 0, or 1 with the reason on stderr."""
    parser = argparse.ArgumentParser(prog="python -m evaluator.backends.gpu.device.install", description=__doc__)
    parser.add_argument("-c", "--constraint", type=Path, help="a pip constraints file")
    parser.add_argument("--without-torch", action="store_true", help="leave torch as it is (2.5 GB if missing)")
    chosen = parser.parse_args(arguments)
    pins = ["-c", str(chosen.constraint.resolve())] if chosen.constraint else []
    try:
        _install(pins, with_torch=not chosen.without_torch)
    except InstallError as refusal:
        print(f"\n{install_command('gpu')}: {refusal}", file=sys.stderr)
        return 1
    return 0


def _install(pins: list[str], with_torch: bool) -> None:
    wanted = requirements()
    if not wanted:
        raise InstallError("this environment's Assay has no extra `gpu`. Install Assay again, then run this again.")
    compiler = _look_around()
    headers = [one for one in wanted if one.startswith("nvidia-cuda-")]
    with _step(f"CUDA {_dotted(CUDA)} headers from PyPI"):
        _pip("install", *pins, *headers)
    pycuda = next(one for one in wanted if one.startswith("pycuda"))
    fault = fault_of_pycuda()
    if fault is None:
        print(f"  PyCUDA {_version('pycuda')}: is there", flush=True)
    else:
        with _step("PyCUDA, built here (one to four minutes)"):
            _build_pycuda(pycuda, pins, compiler)
    rest = [one for one in wanted if one not in headers and (with_torch or not one.startswith("torch"))]
    names = ", ".join(re.split(r"[<>=~!]", one)[0] for one in rest)
    with _step(f"{names} from PyPI" + (" (torch: 2.5 GB)" if with_torch and "torch" in missing() else "")):
        _pip("install", *pins, *rest)
    _look_back(with_torch)


def _look_around() -> Path:
    """What pip cannot bring; returns the C++ compiler. Says everything before anything is downloaded."""
    if sys.platform != "linux":
        raise InstallError(f"the GPU backend works on Linux, and this is {sys.platform}.")
    found = [shutil.which(name) for name in (*filter(None, [os.environ.get("CXX")]), *_CXX)]
    compiler = next((Path(path) for path in found if path), None)
    if compiler is None:
        raise InstallError(
            "PyCUDA is built with a C++ compiler, and there is none on PATH (looked for g++, c++, clang++).\n"
            "Install one, for example with: apt-get install g++   or: dnf install gcc-c++"
        )
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise InstallError(
            f"PyCUDA is built with Python's headers, and {sysconfig.get_path('include')}/Python.h is not there.\n"
            f"Install them, for example with: apt-get install python{version}-dev   or: dnf install python3-devel"
        )
    free_bytes = shutil.disk_usage(sys.prefix).free
    if "torch" in missing() and free_bytes < _NEEDED_FREE_BYTES:
        raise InstallError(
            f"{sys.prefix} has {free_bytes / (1 << 30):.1f} GiB free, and torch with CUDA's libraries takes up to "
            f"{_NEEDED_FREE_BYTES >> 30} GiB while it is installed. Make some room."
        )
    served = driver_cuda()
    if served is None:
        print("  there is no NVIDIA driver on this machine: what is installed now will work once there is one")
    elif served < CUDA:
        raise InstallError(
            f"this machine's NVIDIA driver serves CUDA up to {_dotted(served)}, and the packages on PyPI are made "
            f"for {_dotted(CUDA)}.\nInstall a driver of branch {DRIVER} or later; until then the simulator serves."
        )
    return compiler


def _look_back(with_torch: bool) -> None:
    lacking = [name for name in missing() if with_torch or name != "torch"]
    if lacking:
        raise InstallError(f"pip says that it installed {', '.join(lacking)}, but this Python does not find it.")
    if fault := fault_of_pycuda():
        raise InstallError(f"PyCUDA was built but cannot be loaded: {fault}")
    if _cuda_of_torch() == "none" and driver_cuda() is not None:
        raise InstallError(
            f"torch {_version('torch')} in this environment is the build without CUDA, and pip keeps it.\n"
            f"Remove it and run this again: {sys.executable} -m pip uninstall -y torch"
        )
    print("  done; `assay doctor` says whether everything works together")


def _build_pycuda(requirement: str, pins: list[str], compiler: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="assay-pycuda-") as folder:
        scratch = Path(folder)
        tools = scratch / "tools"
        # Built with this environment's numpy and without pip's isolation, which would fetch another one, twice.
        _pip("install", "--target", str(tools), "setuptools", "wheel")
        environment = {**os.environ, "PYTHONPATH": str(tools)}
        fetch = ("download", *pins, "--no-deps", "--no-binary", "pycuda", "--no-build-isolation", "-d", str(scratch))
        _pip(*fetch, requirement, environment=environment)
        source = _unpacked(scratch)
        stand_in = scratch / "libcuda.so"
        make_stand_in(stand_in, compiler)
        (source / "siteconf.py").write_text(configuration(cuda_root(), stand_in.parent), encoding="utf-8")
        # In LDFLAGS, which comes before the libraries: many compilers drop a library that resolves no symbol, and
        # the extension would no longer ask the loader for the driver.
        environment["LDFLAGS"] = f"-Wl,--no-as-needed {os.environ.get('LDFLAGS', '')}".strip()
        environment |= compilers(compiler)
        install = ("install", "--no-deps", "--no-build-isolation", "--no-cache-dir", "--force-reinstall")
        _pip(*install, str(source), environment=environment)


def compilers(found: Path) -> dict[str, str]:
    """`CC` and `CXX` for the build where the compiler that made this Python is not on this machine."""
    own = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(own) or "CC" in os.environ:
        return {}
    return {"CC": str(found), "CXX": str(found)}


def configuration(root: Path, link_folder: Path) -> str:
    """PyCUDA's build configuration (`siteconf.py`): headers under `root`, libcuda.so in `link_folder`, no cuRAND."""
    settings: dict[str, object] = {
        "CUDA_ROOT": str(root),
        "CUDA_INC_DIR": [str(root / "include")],
        "CUDADRV_LIB_DIR": [str(link_folder)],
        "CUDADRV_LIBNAME": ["cuda"],
        "CUDA_ENABLE_CURAND": False,
        "CUDA_ENABLE_GL": False,
        "CUDA_TRACE": False,
        "USE_SHIPPED_BOOST": True,
    }
    return "".join(f"{name} = {value!r}\n" for name, value in settings.items())


def cuda_root() -> Path:
    """The folder of CUDA's headers that pip installed (`nvidia/cu13`). Raises InstallError when they are not
    complete.
    """
    folders = [Path(sysconfig.get_path(kind), f"nvidia/cu{CUDA[0]}") for kind in ("purelib", "platlib")]
    needed = ("cuda.h", "cudaProfiler.h")
    for folder in folders:
        if all((folder / "include" / name).is_file() for name in needed):
            return folder
    raise InstallError(
        f"CUDA's headers {' and '.join(needed)} are not in {folders[0]}/include, though pip installed them."
    )


def make_stand_in(path: Path, compiler: Path) -> None:
    """Make the shared library that takes the driver's place at link time: it has its name and nothing else."""
    source = path.with_suffix(".cpp")
    source.write_text('extern "C" void assay_link_time_stand_in() {}\n', encoding="utf-8")
    built = _child([str(compiler), "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(path), str(source)])
    if built.returncode:
        raise InstallError(f"the C++ compiler {compiler} does not work:\n{_tail(built.stdout)}")


def _unpacked(folder: Path) -> Path:
    archive = next(folder.glob("pycuda-*.tar.gz"), None)
    if archive is None:
        raise InstallError("pip fetched no source archive of PyCUDA.")
    with tarfile.open(archive) as tar:
        # The early releases of Python 3.11 have no filter.
        tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        tar.extractall(folder)
    return archive.with_name(archive.name.removesuffix(".tar.gz"))


@contextmanager
def _step(what: str, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    print(f"  {what} ... ", end="", flush=True)
    started_s = clock()
    yield
    print(f"{clock() - started_s:.0f} s", flush=True)


def _pip(*arguments: str, environment: dict[str, str] | None = None) -> None:
    done = _child(
        this_python("-m", "pip", "--disable-pip-version-check", "--no-input", "-q", *arguments),
        environment,
    )
    if done.returncode:
        raise InstallError(f"`pip {' '.join(arguments)}` failed:\n{_tail(done.stdout)}")


def _child(command: list[str], environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run to the end, both streams as one text."""
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_BUILD_S,
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired as error:
        raise InstallError(f"`{' '.join(command)}` did not end within {_BUILD_S:.0f} s.") from error
    except OSError as error:
        raise InstallError(f"`{command[0]}` could not be run: {error}") from error


def _tail(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-_TAIL_LINES:])


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _release(version: str | None) -> str | None:
    return ".".join(version.split(".")[:2]) if version else None


def _cuda_of_torch() -> str | None:
    """Read from `torch/version.py`, because importing torch takes seconds and hundreds of megabytes."""
    try:
        file = importlib.metadata.distribution("torch").locate_file("torch/version.py")
        text = Path(str(file)).read_text(encoding="utf-8")
    except (importlib.metadata.PackageNotFoundError, OSError):
        return None
    told = re.search(r"^cuda\b.*=\s*(?:['\"]([\d.]+)['\"]|None)\s*$", text, re.MULTILINE)
    return None if told is None else (told[1] or "none")


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


if __name__ == "__main__":
    started = time.monotonic()
    print(f"Installing the GPU backend into {sys.prefix} (Python {platform.python_version()}):", flush=True)
    status = main()
    print(
        f"{install_command('gpu')} took {time.monotonic() - started:.0f} s", file=sys.stderr if status else sys.stdout
    )
    sys.exit(status)
