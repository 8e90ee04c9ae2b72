# problem: references/changed_in_place.py
# style: Triton, which changes its inputs in place, as the reference does
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def both(x, y, twice, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    a = tl.load(x + at, mask=mask)
    b = tl.load(y + at, mask=mask)
    above = tl.maximum(a, 0.0)
    tl.store(y + at, a + b, mask=mask)
    tl.store(x + at, above, mask=mask)
    tl.store(twice + at, 2.0 * above, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        twice = torch.empty_like(x)
        both[(triton.cdiv(x.numel(), 128),)](x, y, twice, x.numel(), BLOCK=128)
        return y, twice
