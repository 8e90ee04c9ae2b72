# problem: relu
# style: a copy, and then in place; tl.maximum
import triton
import triton.language as tl


@triton.jit
def relu_kernel(y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + offs, mask=offs < n)
    tl.store(y_ptr + offs, tl.maximum(y, 0.0), mask=offs < n)


def run(x, y):
    y.copy_(x)
    relu_kernel[(triton.cdiv(x.shape[0], 512),)](y, x.shape[0], BLOCK=512)
