"""How a Python process of ours is started in a sandbox that has the GPU."""

import os
import sys
import sysconfig
from pathlib import Path


def runner_environment(gpu: str) -> dict[str, str]:
    """Variables of a process that sees the one device `gpu` (its UUID)."""
    found = {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if os.path.isabs(path)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": gpu,
        "CUDA_CACHE_DISABLE": "1",
        "CUDA_MODULE_LOADING": "EAGER",
        # A plan uses one stream, and a context with one channel is made and ended in two thirds of the time.
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    }
    if "LD_LIBRARY_PATH" in os.environ:
        found["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    return found


def devices() -> tuple[Path, ...]:
    """The device nodes that CUDA opens."""
    return tuple(sorted(path for path in Path("/dev").glob("nvidia*") if path.is_char_device()))


def readable() -> tuple[Path, ...]:
    """Where the interpreter, its libraries and this package are: no relative places, for a job has another folder."""
    package = Path(__file__).parents[3]
    places = [Path(sys.prefix), Path(sys.base_prefix), Path(os.path.realpath(sys.executable)).parents[1], package]
    places += [Path(path) for path in sys.path if path and path != str(package.parent)]
    places += [Path(sysconfig.get_paths()[name]) for name in ("purelib", "platlib")]
    places += [Path(path) for path in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if path]
    found = dict.fromkeys(path for path in places if path.is_absolute() and path.is_dir())
    return tuple(path for path in found if path != Path("/"))
