"""The first visible GPU in a submission's own process: PyTorch's context, and memory that the referee shares."""

import contextlib
import os
from collections.abc import Callable
from typing import Any, Final

import torch

from evaluator.backends.gpu.runner import driver

_COPIES: Final = ("Memcpy", "Memset")


class _Pointer:
    """Device memory that torch takes as it is: https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html"""

    def __init__(self, pointer: int, size_bytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size_bytes,),
            "typestr": "|u1",
            "data": (pointer, False),
            "strides": None,
            "version": 3,
        }


class HostCudaDevice:
    """PyTorch on the first visible GPU (`process.HostDevice`)."""

    def __init__(self) -> None:
        self.device = torch.device("cuda")
        torch.zeros(1, device=self.device)
        # Lines that persist in the L2 would outlive the flush before each run: none may, whatever is asked for.
        with contextlib.suppress(driver.DriverError):  # devices without such lines
            driver.forbid_persisting_l2()
        self.facts: dict[str, Any] = {"torch": torch.__version__, "pid": os.getpid()}

    def map(self, descriptor: int, size_bytes: int) -> torch.Tensor:
        shared = driver.SharedMemory.imported(descriptor, size_bytes)
        return torch.as_tensor(_Pointer(shared.pointer, shared.size_bytes), device=self.device)

    def synchronize(self) -> None:
        # The driver's own call, for all streams of the context: what a submission makes of torch's changes nothing.
        state = driver.state_of_context()
        if state != driver.NO_ERROR:
            raise RuntimeError(f"CUDA error: {state}")

    def spent(self, call: Callable[[], Any]) -> list[tuple[str, str, float]]:
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiled:
            call()
            self.synchronize()
        found: dict[tuple[str, str], float] = {}
        for event in profiled.events() or ():
            if event.device_type == torch._C._autograd.DeviceType.CUDA:
                kind = "copy" if event.name.startswith(_COPIES) else "kernel"
                found[event.name, kind] = found.get((event.name, kind), 0.0) + event.device_time
            elif event.name.startswith("aten::") and event.cpu_parent is None:
                found[event.name, "operator"] = found.get((event.name, "operator"), 0.0) + event.cpu_time
        return [(name, kind, us) for (name, kind), us in found.items()]
