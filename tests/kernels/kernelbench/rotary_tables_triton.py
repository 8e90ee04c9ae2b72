# problem: references/rotary_tables.py
# style: Triton, with the reference's own __init__: tables of arange, outer, cos and sin; an output of truth values
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rotary(x, c, s, gain, y, above, half, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < half
    a = tl.load(x + row * 2 * half + at, mask=mask)
    b = tl.load(x + row * 2 * half + half + at, mask=mask)
    cos = tl.load(c + row * half + at, mask=mask)
    sin = tl.load(s + row * half + at, mask=mask)
    by = tl.load(gain)
    tl.store(y + row * 2 * half + at, (a * cos - b * sin) * by, mask=mask)
    tl.store(y + row * 2 * half + half + at, (b * cos + a * sin) * by, mask=mask)
    tl.store(above + row * 2 * half + at, a > 0, mask=mask)
    tl.store(above + row * 2 * half + half + at, b > 0, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width, longest=64):
        super().__init__()
        speed = 1.0 / (10000 ** (torch.arange(0, width, 2).float() / width))
        angle = torch.outer(torch.arange(longest).float(), speed)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        self.gain = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        y = torch.empty_like(x)
        above = torch.empty(x.shape, dtype=torch.bool, device=x.device)
        half = x.shape[1] // 2
        rotary[(x.shape[0],)](x, self.cos, self.sin, self.gain, y, above, half, BLOCK=triton.next_power_of_2(half))
        return y, above
