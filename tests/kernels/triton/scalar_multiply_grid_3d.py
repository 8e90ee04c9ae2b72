# problem: scalar_multiply
# style: a grid in three dimensions
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, y_ptr, alpha, n, BLOCK: tl.constexpr):
    plane = tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)
    block = (plane * tl.num_programs(0) + tl.program_id(0)).to(tl.int64)
    offs = block * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, alpha * tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


def run(x, y, alpha, n):
    blocks = triton.cdiv(n, 1024)
    scale_kernel[(triton.cdiv(blocks, 6), 3, 2)](x, y, alpha, n, BLOCK=1024)
