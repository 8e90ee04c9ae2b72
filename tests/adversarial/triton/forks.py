# problem: vector_add
# attack: forks, and both processes go on
# expect: passed|runtime_error|rejected
# because: a second process records the same, or the recording breaks
import os

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(c_ptr + offs, tl.load(a_ptr + offs, mask=mask) + tl.load(b_ptr + offs, mask=mask), mask=mask)


def run(a, b, c):
    os.fork()
    n = a.numel()
    add_kernel[(triton.cdiv(n, 256),)](a, b, c, n, BLOCK=256)
