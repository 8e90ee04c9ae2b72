# problem: relu
# attack: none: an honest solution
# expect: passed
# because: the answer is right, however it comes about
from __future__ import annotations

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x)
