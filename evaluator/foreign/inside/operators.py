"""Operators that are seen as they are carried out: the ground of all dispatch modes here."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class SeenOperators(TorchDispatchMode):
    """While it is active, every operator that reaches PyTorch's kernels goes through `__torch_dispatch__`."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Nobody compiles here, and to keep the compiler out PyTorch would import it: 1.4 s.
        return False


def seed_torch(seed: int) -> None:
    """As `torch.manual_seed`, which imports the compiler too."""
    torch.default_generator.manual_seed(seed)


def operator_name(func: Any) -> str:
    """`add` for aten.add.Tensor."""
    return str(func.overloadpacket.__name__)
