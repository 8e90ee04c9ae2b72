import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)


batch_size = 16
dim = 1000


def get_inputs():
    x = torch.rand(batch_size, dim) * 2 - 1
    return [x]


def get_init_inputs():
    return []
