# problem: vector_add
# attack: a static loop over millions of values
# expect: timeout|compile_error|out_of_memory
# because: the time to compile is bounded
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for i in tl.static_range(100000000):
        offs += i % 2
    mask = offs < n
    tl.store(c_ptr + offs, tl.load(a_ptr + offs, mask=mask) + tl.load(b_ptr + offs, mask=mask), mask=mask)


def run(a, b, c):
    n = a.numel()
    add_kernel[(triton.cdiv(n, 256),)](a, b, c, n, BLOCK=256)
