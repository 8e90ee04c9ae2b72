# problem: vector_add
# attack: remembers by the tensor whether it has launched
# expect: passed|incorrect|invalid_submission
# because: each recording is a process of its own: it launches each time
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(c_ptr + offs, tl.load(a_ptr + offs, mask=mask) + tl.load(b_ptr + offs, mask=mask), mask=mask)


_done = {}


def run(a, b, c):
    if id(c) not in _done:
        _done[id(c)] = True
        add_kernel[(triton.cdiv(a.numel(), 256),)](a, b, c, a.numel(), BLOCK=256)
