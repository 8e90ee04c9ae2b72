"""Toolboxs with a GPU's referee of their own, which ends with the tests."""

import os
import signal
import tempfile
from pathlib import Path

import pytest

from benchmarks._support.one_gpu import one_gpu
from evaluator.pipeline.toolbox import Toolbox
from evaluator.settings import MachineSettings


def _toolbox(jobs_per_runner):
    # A short path, because a socket's has 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        settings = MachineSettings(Path(folder), gpu=one_gpu(), jobs_per_runner=jobs_per_runner, referee_idle_s=120)
        made = Toolbox(settings)
        pid = made.gpu.facts()["pid"]
        yield made
        os.kill(pid, signal.SIGTERM)


@pytest.fixture(scope="module")
def gpu_toolbox():
    """Each program in a context of its own."""
    yield from _toolbox(1)


@pytest.fixture(scope="module")
def reusing_toolbox():
    """Many programs in one context, one after another."""
    yield from _toolbox(32)
