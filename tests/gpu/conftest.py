"""Toolboxes with a GPU's referee of their own, which ends with the tests."""

import contextlib
import os
import signal
import tempfile
from pathlib import Path

import pytest

from benchmarks._support.one_gpu import one_gpu, the_gpu
from evaluator.pipeline.gpu.client import GpuReferee
from evaluator.pipeline.toolbox import Toolbox
from evaluator.settings import MachineSettings


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """A folder of all processes of this test run: what was compiled and learned, and the turns of their referees."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "gpu"
    for name in ("cache", "turns"):
        (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _toolbox(jobs_per_runner, shared):
    # A short path, because a socket's has 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="assay-", ignore_cleanup_errors=True) as named:
        # Said to be one of two, since one alone takes no turns: a time that is taken beside the kernels of another
        # process's referee would be theirs as well.
        settings = MachineSettings(
            Path(named), gpu=one_gpu(), jobs_per_runner=jobs_per_runner, referee_idle_s=120, referees_per_gpu=2
        )
        made, gpu = Toolbox(settings), the_gpu()
        made.__dict__["gpu"] = GpuReferee(gpu, settings)
        referees = settings.data_dir / "referees"
        referees.mkdir(mode=0o700)
        (referees / f"{gpu.uuid}.turns").symlink_to(shared / "turns")
        (settings.data_dir / "cache").symlink_to(shared / "cache")
        pid = made.gpu.facts()["pid"]
        yield made
        with contextlib.suppress(ProcessLookupError):  # it ended by itself, since nobody came for so long
            os.kill(pid, signal.SIGTERM)


@pytest.fixture(scope="session")
def gpu_toolbox(shared):
    """Each program in a context of its own."""
    yield from _toolbox(1, shared)


@pytest.fixture(scope="session")
def reusing_toolbox(shared):
    """Many programs in one context, one after another."""
    yield from _toolbox(32, shared)
