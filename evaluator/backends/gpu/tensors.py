"""Torch tensors: random contents drawn on the device, and the PyTorch baselines of problems."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import array_api_compat.torch as torch_namespace
import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from evaluator.backends.gpu import driver
from evaluator.errors import GpuFault
from evaluator.problems.arrays import Array, Shape
from evaluator.problems.problem import Problem, Sizes


class TorchDice:
    """Dice that draw tensors on `device`, from a generator of their own there: no content crosses the bus."""

    def __init__(self, seed: int, device: str):
        self.device = torch.device(device)
        self._generator = torch.Generator(self.device)
        self._generator.manual_seed(seed)

    @property
    def xp(self) -> Any:
        return torch_namespace

    def normal(self, shape: Shape) -> Array:
        return torch.randn(shape, generator=self._generator, dtype=torch.float64, device=self.device)

    def uniform(self, low: float, high: float, shape: Shape) -> Array:
        share = torch.rand(shape, generator=self._generator, dtype=torch.float64, device=self.device)
        return share * (high - low) + low

    def integers(self, low: int, high: int, shape: Shape) -> Array:
        return torch.randint(low, high + 1, shape, generator=self._generator, dtype=torch.int64, device=self.device)

    def signs(self, shape: Shape) -> Array:
        return (2 * self.integers(0, 1, shape) - 1).to(torch.float64)

    def full(self, shape: Shape, value: float) -> Array:
        return torch.full(shape, value, dtype=torch.float64, device=self.device)

    def arange(self, stop: int) -> Array:
        return torch.arange(stop, dtype=torch.int64, device=self.device)


def eager(problem: Problem, inputs: Mapping[str, Array], sizes: Sizes) -> Callable[[], torch.Tensor]:
    """The problem's baseline on these tensors: each call computes its output anew with PyTorch's eager operators."""
    names = {"torch": torch, "F": functional, **inputs, **sizes, **{s.name: s.value for s in problem.scalars}}
    # The text is part of a problem, which is ours, and never comes from a submission.
    compute: Callable[[], torch.Tensor] = eval(f"lambda: {problem.baseline}", names)
    return compute


def on_device(array: NDArray[Any], like: torch.Tensor) -> torch.Tensor:
    """A copy of a numpy array on the device of `like`."""
    return torch.from_numpy(np.array(array)).to(like.device)


def synchronize(tensor: torch.Tensor) -> None:
    """Wait until all that was queued for the tensor's device is done, so that another process sees it."""
    if tensor.is_cuda:
        torch.cuda.current_stream(tensor.device).synchronize()


def any_true(masks: Sequence[torch.Tensor]) -> list[bool]:
    """For each mask whether anything in it is true, asking the device once."""
    return [bool(flag) for flag in torch.stack([mask.any() for mask in masks]).tolist()]


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


class DeviceMemory:
    """Memory on the first visible GPU that a runner can map (`arena.Memory`)."""

    def __init__(self, size_bytes: int) -> None:
        """Raises GpuFault where there is not as much."""
        torch.cuda.current_stream()  # makes the context current that the driver's calls go to
        try:
            self._shared = driver.SharedMemory.create(size_bytes)
        except driver.DriverError as error:
            free, total = torch.cuda.mem_get_info()
            raise GpuFault(
                f"{size_bytes >> 20} MiB of GPU memory could not be had ({error}); {free >> 20} of {total >> 20} MiB "
                "are free.",
                "Other processes hold the rest: see `nvidia-smi`.",
            ) from error
        self.size_bytes = self._shared.size_bytes
        self.content = torch.as_tensor(_Pointer(self._shared.pointer, self.size_bytes), device="cuda")

    def descriptor(self) -> int:
        return self._shared.descriptor()

    def close(self) -> None:
        torch.cuda.synchronize()
        del self.content
        self._shared.close()


def free_bytes() -> int:
    """Free memory of the first visible GPU."""
    return int(torch.cuda.mem_get_info()[0])
