# problem: matvec
# style: a tile of rows a program, a sum over the columns
import triton
import triton.language as tl


@triton.jit
def matvec_kernel(a_ptr, x_ptr, y_ptr, m, k, ROWS: tl.constexpr, COLS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    acc = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for start in range(0, k, COLS):
        cols = start + tl.arange(0, COLS)
        a = tl.load(
            a_ptr + rows[:, None] * k + cols[None, :], mask=(rows[:, None] < m) & (cols[None, :] < k), other=0.0
        )
        acc += a * tl.load(x_ptr + cols, mask=cols < k, other=0.0)[None, :]
    tl.store(y_ptr + rows, tl.sum(acc, axis=1), mask=rows < m)


def run(a, x, y):
    m, k = a.shape
    matvec_kernel[(triton.cdiv(m, 8),)](a, x, y, m, k, ROWS=8, COLS=128)
