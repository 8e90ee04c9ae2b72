# problem: row_sum
# style: eight rows a block, a sum along one axis of a tile
import triton
import triton.language as tl


@triton.jit
def row_sums(x_ptr, y_ptr, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    acc = tl.zeros((ROWS,), tl.float32)
    for start in range(0, cols, COLS):
        col = start + tl.arange(0, COLS)
        mask = (row[:, None] < rows) & (col[None, :] < cols)
        acc += tl.sum(tl.load(x_ptr + row[:, None] * cols + col[None, :], mask=mask, other=0.0), axis=1)
    tl.store(y_ptr + row, acc, mask=row < rows)


def run(x, y, rows, cols):
    row_sums[(triton.cdiv(rows, 8),)](x, y, rows, cols, ROWS=8, COLS=64)
