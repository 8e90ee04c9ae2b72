"""Grading in the host tier without a GPU: the real pipeline, referee, processes and clock; PyTorch on the host."""

import torch
from stand_in_host import StandInSide

from common.contract import DeviceState
from evaluator.backends.gpu.host.session import HostRuntime
from evaluator.backends.gpu.tensors import TorchBaseline, TorchRng
from evaluator.pipeline.gpu.host_judging import judge_host
from evaluator.pipeline.toolbox import Toolbox
from evaluator.settings import MachineSettings


class StandInHostReferee:
    """A referee of host code alone, in this process."""

    name = "gpu"
    device = "stand-in"
    arch = "sm_90a"
    count = 1

    def __init__(self, sandbox):
        # The referee's own arithmetic must not wait for its threads on a busy machine.
        torch.set_num_threads(1)
        self.runtime = HostRuntime(sandbox, "", StandInSide(), memory_bytes=1 << 30)
        self._baseline = TorchBaseline("cpu", lambda: DeviceState(name="stand-in", uuid="GPU-0", driver="1.0"))

    def judge(self, request, progress):
        raise AssertionError("host code was recorded")

    def judge_host(self, request, progress):
        return judge_host(request, self.runtime, lambda seed: TorchRng(seed, "cpu"), self._baseline, progress)

    def bound_to(self, cancel_token):
        return self


def host_toolbox(data_dir):
    """A toolbox whose GPU is such a referee; its `gpu.runtime` is to be closed."""
    toolbox = Toolbox(MachineSettings(data_dir, host_tier="on"))
    toolbox.__dict__["gpu"] = StandInHostReferee(toolbox.sandbox)
    return toolbox
