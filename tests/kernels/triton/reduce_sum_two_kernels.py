# problem: reduce_sum
# style: two kernels with a tensor of partial sums between them
import torch
import triton
import triton.language as tl


@triton.jit
def partial_kernel(x_ptr, partial_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(partial_ptr + pid, tl.sum(tl.load(x_ptr + offs, mask=offs < n, other=0.0)))


@triton.jit
def total_kernel(partial_ptr, total_ptr, many, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, many, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        acc += tl.load(partial_ptr + offs, mask=offs < many, other=0.0)
    tl.store(total_ptr, tl.sum(acc))


def run(x, total):
    n = x.numel()
    many = triton.cdiv(n, 2048)
    partial = torch.empty(many, device=x.device, dtype=torch.float32)
    partial_kernel[(many,)](x, partial, n, BLOCK=2048)
    total_kernel[(1,)](partial, total, many, BLOCK=1024)
