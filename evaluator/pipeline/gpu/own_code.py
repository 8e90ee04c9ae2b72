"""The referee's own device code, compiled once by the toolchain that is there and kept in the cache."""

import logging
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from evaluator.backends.gpu.checks import SOURCE
from evaluator.disk_cache import Cache, key_of
from evaluator.errors import JobKilledError, ToolchainMissingError
from evaluator.sandbox.retry import run_program
from evaluator.stages.compile.toolchain import Toolchain, find_toolchain

_COMPILE_S: Final = 60.0
"""It takes one second; this is for a machine with much else to do."""
_ENTRY: Final = "image"

log = logging.getLogger("assay.referee")


class OwnCodeError(Exception):
    """It could not be compiled; the message says why."""


def own_code(cache: Cache, arch: str) -> bytes | None:
    """A cubin for `arch`; None, with a warning, where it cannot be made: then array code does the same, slower."""
    try:
        toolchain = find_toolchain()
        key = key_of("the referee's own device code", toolchain.digest, SOURCE.read_bytes(), arch)
        return cache.get_or_make(key, lambda: {_ENTRY: own_image(toolchain, arch, "cubin")})[0][_ENTRY]
    except (ToolchainMissingError, OwnCodeError, JobKilledError) as fault:
        log.warning("the referee's own device code is missing, so it is slower: %s", fault)
        return None


def own_image(toolchain: Toolchain, arch: str, form: str) -> bytes:
    """The code as `cubin` or `ptx`. Raises OwnCodeError, JobKilledError."""
    with tempfile.TemporaryDirectory(prefix="assay-own-") as folder:
        output = Path(folder, "image")
        command = [
            toolchain.nvcc,
            f"-{form}",
            f"-arch={arch}",
            "-ccbin",
            toolchain.host_compiler,
            "-o",
            output,
            SOURCE,
        ]
        try:
            done = run_program(command, capture_output=True, text=True, timeout=_COMPILE_S, cwd=folder)
            if done.returncode == 0:
                return output.read_bytes()
        except (OSError, subprocess.TimeoutExpired) as error:
            raise OwnCodeError(str(error)) from error
        raise OwnCodeError((done.stderr or done.stdout).strip()[-500:] or f"exit code {done.returncode}")
