# problem: vector_add
# attack: returns the tensor that it returned for the same inputs
# expect: rejected
# because: the same addresses hold other inputs then
# message: returns a tensor that an earlier call returned
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(c_ptr + offs, tl.load(a_ptr + offs, mask=mask) + tl.load(b_ptr + offs, mask=mask), mask=mask)


answers = {}


def run(a, b):
    key = (a.data_ptr(), b.data_ptr())
    if key not in answers:
        answers[key] = torch.empty_like(a)
        add_kernel[(triton.cdiv(a.numel(), 256),)](a, b, answers[key], a.numel(), BLOCK=256)
    return answers[key]
