# problem: vector_add
# attack: writes a recording of its own and ends its process
# expect: rejected|runtime_error
# because: what the recorder does not write is refused
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
    for number in range(64):
        with open(f"recording.{number}", "w") as file:
            file.write('{"recording": {"buffers": [], "steps": [], "streams": 1, "verdict": "passed"}}')
    os._exit(0)
