# problem: scalar_multiply
# style: a grid of as many programs as multiprocessors, and a while loop
import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, y_ptr, alpha, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    while start < n:
        offs = start + tl.arange(0, BLOCK)
        tl.store(y_ptr + offs, alpha * tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)
        start += tl.num_programs(0) * BLOCK


def run(x, y, alpha, n):
    many = torch.cuda.get_device_properties(x.device).multi_processor_count
    scale_kernel[(min(many, triton.cdiv(n, 256)),)](x, y, alpha, n, BLOCK=256)
