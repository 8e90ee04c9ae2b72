# problem: row_sum
# style: the sum so far is kept in the output: all threads load it, one stores it
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x_ptr, y_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    tl.store(y_ptr + row, 0.0)
    for at in range(0, cols, BLOCK):
        offs = at + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row.to(tl.int64) * cols + offs, mask=offs < cols, other=0.0)
        tl.store(y_ptr + row, tl.load(y_ptr + row) + tl.sum(x))


def run(x, y, rows, cols):
    row_sum_kernel[(rows,)](x, y, cols, BLOCK=256, num_warps=4)
