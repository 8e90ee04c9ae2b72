# problem: softmax
# style: a row in registers: a constant that follows the columns, warps that follow it
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(y_ptr, x_ptr, x_stride, y_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + offs, mask=offs < cols, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * y_stride + offs, e / tl.sum(e, axis=0), mask=offs < cols)


def run(x, y):
    rows, cols = x.shape
    BLOCK = triton.next_power_of_2(cols)
    num_warps = 4 if BLOCK < 2048 else 8 if BLOCK < 4096 else 16
    softmax_kernel[(rows,)](y, x, x.stride(0), y.stride(0), cols, BLOCK=BLOCK, num_warps=num_warps)
