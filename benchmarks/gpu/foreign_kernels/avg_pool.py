import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return F.avg_pool1d(x, 4, stride=2, padding=1)


batch_size = 8
channels = 16
length = 1024


def get_inputs():
    return [torch.randn(batch_size, channels, length)]


def get_init_inputs():
    return []
