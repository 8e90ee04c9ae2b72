import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


heads = 4
length = 64
dim = 32


def get_inputs():
    return [torch.randn(heads, length, dim), torch.randn(heads, length, dim), torch.randn(heads, length, dim)]


def get_init_inputs():
    return []
