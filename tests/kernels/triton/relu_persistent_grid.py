# problem: relu
# style: a persistent grid, by the registers of a kernel that was compiled ahead
import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    for first in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        offs = first + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs, mask=offs < n)
        tl.store(y_ptr + offs, tl.maximum(x, 0.0), mask=offs < n)


def run(x, y, n):
    properties = torch.cuda.get_device_properties(x.device)
    kernel = relu_kernel.warmup(x, y, n, BLOCK=1024, num_warps=4, grid=(1,))
    kernel._init_handles()
    occupancy = properties.regs_per_multiprocessor // (kernel.n_regs * properties.warp_size * 4)
    blocks = min(properties.multi_processor_count * occupancy, triton.cdiv(n, 1024))
    relu_kernel[(blocks, 1, 1)](x, y, n, BLOCK=1024, num_warps=4)
