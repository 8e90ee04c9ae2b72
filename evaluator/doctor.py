"""What works on this machine, what does not, and the command that mends it."""

import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from common.contract import Status, Submission
from evaluator import __version__
from evaluator.errors import AssayError
from evaluator.pipeline import evaluate
from evaluator.problems.catalogue import find, problems
from evaluator.sandbox.selftest import probe
from evaluator.stages.toolchain import gpu_arch
from evaluator.workshop import Workshop

_NEEDED_FREE_BYTES = 1 << 30


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `ok` is None where it is only worth knowing."""

    name: str
    ok: bool | None
    detail: str
    remedy: str | None = None


def examine(workshop: Workshop) -> Iterator[Finding]:
    """Look at one thing after another; what depends on a broken one says so itself."""
    yield Finding("assay", None, f"{__version__}, {len(problems())} problems, Python {platform.python_version()}")
    yield _finding("compiler", lambda: _compiler(workshop))
    yield _finding("sandbox", lambda: _sandbox(workshop))
    yield _finding("data folder", lambda: _storage(workshop))
    yield _finding("simulator", lambda: _simulator(workshop))
    arch = gpu_arch()
    yield Finding("GPU", None, f"an NVIDIA GPU ({arch})" if arch else "none: kernels run on the simulator, untimed")


def _finding(name: str, look: Callable[[], Finding]) -> Finding:
    try:
        return look()
    except AssayError as error:
        return Finding(name, False, str(error), error.remedy)
    except OSError as error:
        return Finding(name, False, f"{error.strerror or error}: {error.filename or ''}")


def _compiler(workshop: Workshop) -> Finding:
    toolchain = workshop.toolchain
    return Finding(
        "compiler", True, f"{toolchain.label} at {toolchain.nvcc}, host compiler {toolchain.host_compiler_version}"
    )


def _sandbox(workshop: Workshop) -> Finding:
    sandbox = workshop.sandbox
    layers = probe(sandbox)
    broken = [layer for layer in layers if layer.promised and not layer.holds]
    missing = [layer.name for layer in layers if not layer.promised]
    if broken:
        return Finding(
            "sandbox", False, f"{sandbox.name}: " + "; ".join(f"{layer.name}: {layer.detail}" for layer in broken)
        )
    detail = f"{sandbox.name}: {len(layers) - len(missing)} layers hold"
    if missing:
        return Finding(
            "sandbox",
            None,
            f"{detail}; not promised: {', '.join(missing)}",
            "Allow user namespaces (sysctl kernel.unprivileged_userns_clone=1), so that bubblewrap can be used.",
        )
    return Finding("sandbox", True, detail)


def _storage(workshop: Workshop) -> Finding:
    folder = workshop.settings.data_dir
    _ = workshop.sandbox  # makes the folder
    free_bytes = shutil.disk_usage(folder).free
    ok = free_bytes > _NEEDED_FREE_BYTES and workshop.cache.warning is None
    remedy = None if ok else "Free some space, or set ASSAY_DATA_DIR to another folder."
    return Finding("data folder", ok, f"{folder}, {free_bytes / (1 << 30):.1f} GiB free", remedy)


def _simulator(workshop: Workshop) -> Finding:
    """Grade one kernel for real."""
    workshop.simulator.warm_up()
    started_s = time.monotonic()
    problem = find("vector_add")
    verdict = evaluate(Submission(problem=problem.id, source=problem.naive.source, backend="sim"), workshop)
    took = f"{time.monotonic() - started_s:.2f} s"
    if verdict.status is not Status.PASSED:
        return Finding("simulator", False, f"a right kernel got {verdict.status}: {verdict.message}", verdict.hint)
    return Finding("simulator", True, f"graded {problem.id} in {took} on {platform.machine()}, {sys.platform}")
