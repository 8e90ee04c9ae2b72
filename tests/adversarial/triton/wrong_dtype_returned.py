# problem: vector_add
# attack: returns float64
# expect: invalid_submission
# because: what it returns is no output of the problem
# message: float64
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(c_ptr + offs, tl.load(a_ptr + offs, mask=mask) + tl.load(b_ptr + offs, mask=mask), mask=mask)


def run(a, b):
    return torch.empty_like(a, dtype=torch.float64)
