# problem: vector_add
# attack: hands the recorder PTX that Triton has not written
# expect: rejected|compile_error|runtime_error
# because: PTX is assembled by ptxas, and has one kernel
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
    kernels = sys.modules["evaluator.stages.lift.triton.inside.recording_driver"].Kernels
    add = kernels.add
    kernels.add = lambda self, kernel: add(self, {**kernel, "ptx": "forged"})
    add_kernel[(triton.cdiv(a.numel(), 256),)](a, b, c, a.numel(), BLOCK=256)
