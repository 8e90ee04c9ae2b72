# problem: vector_add
# style: solve(a, b, c, N) as LeetGPU calls it, with annotations
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(a, b, c, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(a + offsets, mask=mask)
    y = tl.load(b + offsets, mask=mask)
    tl.store(c + offsets, x + y, mask=mask)


# a, b, c are tensors on the GPU
def solve(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, N: int):
    BLOCK_SIZE = 512
    grid = (triton.cdiv(N, BLOCK_SIZE),)
    add_kernel[grid](a, b, c, N, BLOCK_SIZE)
