# problem: gelu
# style: erf of libdevice, two elements a thread
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def gelu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    y = 0.5 * x * (1.0 + libdevice.erf(x * 0.7071067811865476))
    # Where the sum cancels, erfc keeps its digits.
    y = tl.where(x < 0, 0.5 * x * libdevice.erfc(x * -0.7071067811865476), y)
    tl.store(y_ptr + offs, y, mask=offs < n)


def run(x, y):
    gelu_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256, num_warps=4)
