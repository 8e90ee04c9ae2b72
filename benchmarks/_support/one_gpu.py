"""Which GPU a benchmark uses that is about one, and its one referee."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evaluator.backends.gpu.device.health import Gpu, gpus
from evaluator.pipeline.gpu.client import GpuReferee
from evaluator.pipeline.toolbox import Toolbox
from evaluator.settings import MachineSettings


def one_gpu() -> str:
    """What `ASSAY_GPU` says, else the first one's UUID; empty where there is none."""
    return os.environ.get("ASSAY_GPU") or next((gpu.uuid for gpu in gpus()), "")


def the_gpu() -> Gpu:
    """That one. Raises LookupError where it is not there."""
    found = next((gpu for gpu in gpus() if one_gpu() in (gpu.uuid, str(gpu.index))), None)
    if found is None:
        raise LookupError("no GPU can be used here: see `assay doctor`")
    return found


def with_one_referee(data_dir: Path, gpu: str | None = None, **more: Any) -> MachineSettings:
    """Settings of a toolbox for that GPU with a single referee, whose process the benchmark is to know. By default a
    GPU has several (`MachineSettings.referees_per_gpu`). `gpu`: another, or none (empty); `more`: other settings.
    """
    return MachineSettings(data_dir, gpu=one_gpu() if gpu is None else gpu, referees_per_gpu=1, **more)


def referee_of(toolbox: Toolbox) -> GpuReferee:
    """The referee of a toolbox that has one. Raises LookupError."""
    referee = toolbox.gpu
    if not isinstance(referee, GpuReferee):
        raise LookupError("this is for one GPU with one referee: set ASSAY_GPU, and see `assay doctor`")
    return referee


@contextlib.contextmanager
def its_referee(toolbox: Toolbox) -> Iterator[GpuReferee]:
    """The referee of a toolbox that has one, started; it ends with the block. Raises LookupError, GpuError."""
    referee = referee_of(toolbox)
    pid = referee.facts()["pid"]
    try:
        yield referee
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
