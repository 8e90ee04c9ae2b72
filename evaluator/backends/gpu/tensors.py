"""Torch tensors: random contents drawn on the device, and the PyTorch baselines of problems."""

from collections.abc import Callable, Mapping
from typing import Any

import array_api_compat.torch as torch_namespace
import torch
from torch.nn import functional

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
