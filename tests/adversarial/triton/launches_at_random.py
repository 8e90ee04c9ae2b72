# problem: vector_add
# attack: the grid is a random number
# expect: rejected
# because: the two recordings differ
# message: does not launch the same each time
import random

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(c_ptr + offs, tl.load(a_ptr + offs, mask=mask) + tl.load(b_ptr + offs, mask=mask), mask=mask)


def run(a, b, c):
    n = a.numel()
    add_kernel[(triton.cdiv(n, 256) + random.SystemRandom().randrange(1000),)](a, b, c, n, BLOCK=256)
