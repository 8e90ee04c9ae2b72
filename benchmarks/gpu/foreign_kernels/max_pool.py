import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return F.max_pool2d(x, 2)


batch_size = 8
channels = 16
side = 64


def get_inputs():
    return [torch.randn(batch_size, channels, side, side)]


def get_init_inputs():
    return []
