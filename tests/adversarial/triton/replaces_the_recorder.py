# problem: vector_add
# attack: has its recorder forget each launch
# expect: invalid_submission|rejected|runtime_error
# because: nothing is recorded, so nothing is launched
import sys

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(c_ptr + offs, tl.load(a_ptr + offs, mask=mask) + tl.load(b_ptr + offs, mask=mask), mask=mask)


def run(a, b, c):
    memory = sys.modules["evaluator.stages.lift.triton.inside.memory"].RecordedMemory
    memory.launch = lambda self, **fields: None
    add_kernel[(triton.cdiv(a.numel(), 256),)](a, b, c, a.numel(), BLOCK=256)
