import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, groups=channels, bias=False)

    def forward(self, x):
        return self.conv(x)


batch_size = 4
channels = 16
side = 32


def get_inputs():
    return [torch.randn(batch_size, channels, side, side)]


def get_init_inputs():
    return []
