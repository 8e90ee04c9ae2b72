# problem: reduce_sum
# style: a workspace that the first call makes, kept by a dictionary of shapes
import torch
import triton
import triton.language as tl


@triton.jit
def sums(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    block, many = tl.program_id(0), tl.num_programs(0)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(block * BLOCK, n, many * BLOCK):
        offs = start + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.store(y_ptr + block, tl.sum(acc, axis=0))


workspaces = {}


def run(x, total, n):
    key = (x.dtype, 64)
    if key not in workspaces:
        workspaces[key] = torch.zeros(64, dtype=x.dtype, device=x.device)
    partial = workspaces[key]
    sums[(64,)](x, partial, n, BLOCK=256)
    sums[(1,)](partial, total, 64, BLOCK=64)
