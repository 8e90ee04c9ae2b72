# problem: reduce_sum
# style: zero_() and an atomic add for each program
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, total_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + offs, mask=offs < n, other=0.0), axis=0)
    tl.atomic_add(total_ptr, part)


def run(x, total):
    total.zero_()
    sum_kernel[(triton.cdiv(x.numel(), 4096),)](x, total, x.numel(), BLOCK=4096)
