# problem: rms_norm
# style: several rows a program in a 2-D tile, returned
import torch
import triton
import triton.language as tl


@triton.jit
def rms_norm_kernel(x_ptr, w_ptr, y_ptr, rows, cols, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.arange(0, BLOCK)[None, :]
    mask = (row < rows) & (col < cols)
    x = tl.load(x_ptr + row * cols + col, mask=mask, other=0.0)
    scale = tl.rsqrt(tl.sum(x * x, axis=1) / cols + eps)
    w = tl.load(w_ptr + col, mask=col < cols, other=0.0)
    tl.store(y_ptr + row * cols + col, x * scale[:, None] * w, mask=mask)


def run(x, weight, eps):
    rows, cols = x.shape
    y = torch.empty((rows, cols), device="cuda", dtype=x.dtype)
    rms_norm_kernel[(triton.cdiv(rows, 2),)](
        x, weight, y, rows, cols, eps, ROWS=2, BLOCK=triton.next_power_of_2(cols), num_warps=8
    )
    return y
