"""Which GPU a benchmark uses that is about one."""

import os

from evaluator.backends.gpu.device.health import Gpu, gpus


def one_gpu() -> str:
    """What `ASSAY_GPU` says, else the first one's UUID; empty where there is none."""
    return os.environ.get("ASSAY_GPU") or next((gpu.uuid for gpu in gpus()), "")


def the_gpu() -> Gpu:
    """That one. Raises LookupError where it is not there."""
    found = next((gpu for gpu in gpus() if one_gpu() in (gpu.uuid, str(gpu.index))), None)
    if found is None:
        raise LookupError("no GPU can be used here: see `assay doctor`")
    return found
