# problem: vector_add
# attack: asks for an element of an input
# expect: unsupported
# because: there is no data to look at
# message: reads data
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(c_ptr + offs, tl.load(a_ptr + offs, mask=mask) + tl.load(b_ptr + offs, mask=mask), mask=mask)


def run(a, b, c):
    if a[0].item() > 0:
        return
    n = a.numel()
    add_kernel[(triton.cdiv(n, 256),)](a, b, c, n, BLOCK=256)
