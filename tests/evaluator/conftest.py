"""A driver to ask on machines without one: the real pynvml over a stand-in for its library."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pynvml
import pytest

from evaluator.backends.gpu.device import health


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory):
    path = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    source = Path(__file__).parent / "backends/gpu/nvml_stand_in.c"
    compiler = next(filter(None, map(shutil.which, ("gcc", "cc", "clang"))))
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-w", "-o", path, source], check=True)
    return path


@pytest.fixture
def driver(nvml_library, monkeypatch):
    """`driver("hot")` makes pynvml talk to the stand-in, which then has that wrong; see its first lines."""

    def begin(wrong=""):
        monkeypatch.setenv("NVML_STAND_IN", wrong)
        monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(nvml_library)))
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        health._nvml.cache_clear()

    yield begin
    health._nvml.cache_clear()


@pytest.fixture
def complete(monkeypatch):
    """A machine on which `make gpu` has been run, as far as `why_not` can tell."""
    monkeypatch.setattr(health, "missing", lambda: ())
