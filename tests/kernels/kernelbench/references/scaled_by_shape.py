import torch
from torch import nn

batch = 2048
features = 8192
scale_shape = (features,)


class Model(nn.Module):
    def __init__(self, features, scale_shape):
        super().__init__()
        self.features = features
        self.scale = nn.Parameter(torch.randn(scale_shape))

    def forward(self, x, mask):
        return x * mask * self.scale


def get_inputs():
    return [torch.randn(batch, features), torch.randint(0, 2, (batch, features)).bool()]


def get_init_inputs():
    return [features, scale_shape]
