# problem: transpose
# style: two-dimensional tiles, tl.trans, and a grid in two dimensions
import triton
import triton.language as tl


@triton.jit
def transpose_kernel(x_ptr, y_ptr, rows, cols, TILE: tl.constexpr):
    r = tl.program_id(1) * TILE + tl.arange(0, TILE)
    c = tl.program_id(0) * TILE + tl.arange(0, TILE)
    x = tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=(r[:, None] < rows) & (c[None, :] < cols))
    tl.store(y_ptr + c[:, None] * rows + r[None, :], tl.trans(x), mask=(c[:, None] < cols) & (r[None, :] < rows))


def run(x, y):
    rows, cols = x.shape
    transpose_kernel[(triton.cdiv(cols, 32), triton.cdiv(rows, 32))](x, y, rows, cols, TILE=32)
