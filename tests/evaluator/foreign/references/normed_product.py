import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, cols, features):
        super().__init__()
        self.norm = nn.LayerNorm(cols)
        self.product = nn.Linear(cols, features)

    def forward(self, x):
        return self.product(self.norm(x))


rows = 20
cols = 70
features = 33


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return [cols, features]
