# problem: references/linear_bias.py
# style: Triton, the parameters of nn.Linear by their names, made with what the reference says
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_relu(x_ptr, w_ptr, b_ptr, y_ptr, m, n, k, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < m * n
    row, col = offs // n, offs % n
    acc = tl.load(b_ptr + col, mask=mask, other=0.0)
    for j in range(k):
        x = tl.load(x_ptr + row * k + j, mask=mask, other=0.0)
        acc += x * tl.load(w_ptr + col * k + j, mask=mask, other=0.0)
    tl.store(y_ptr + offs, tl.maximum(acc, 0.0), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        weight, bias = self.linear.weight, self.linear.bias
        y = torch.empty(x.shape[0], weight.shape[0], device=x.device, dtype=x.dtype)

        def grid(meta):
            return (triton.cdiv(y.numel(), meta["BLOCK"]),)

        linear_relu[grid](x, weight, bias, y, x.shape[0], weight.shape[0], x.shape[1], BLOCK=128)
        return y
