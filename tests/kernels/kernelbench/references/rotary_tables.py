"""Tables and a number that a module holds, made of numbers; truth values beside the answer."""

import torch
import torch.nn as nn

ROWS, WIDTH = 24, 16


class Model(nn.Module):
    def __init__(self, width, longest=64):
        super().__init__()
        speed = 1.0 / (10000 ** (torch.arange(0, width, 2).float() / width))
        angle = torch.outer(torch.arange(longest).float(), speed)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        self.gain = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        rows, half = x.shape[0], x.shape[1] // 2
        a, b, c, s = x[:, :half], x[:, half:], self.cos[:rows], self.sin[:rows]
        return torch.cat([a * c - b * s, b * c + a * s], dim=-1) * self.gain, x > 0


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [WIDTH]
