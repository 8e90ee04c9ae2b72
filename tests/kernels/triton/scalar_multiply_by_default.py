# problem: scalar_multiply
# style: the scalar has a default, which is not what the problem has
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, alpha, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, alpha * tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


def run(x, y, alpha=1.0, block=256):
    scale_kernel[(triton.cdiv(x.numel(), block),)](x, alpha, y, x.numel(), BLOCK=block)
