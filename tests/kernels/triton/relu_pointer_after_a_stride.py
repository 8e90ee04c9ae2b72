# problem: relu
# style: each tensor's stride behind its pointer, so that the second pointer is not next to the first
import triton
import triton.language as tl


@triton.jit
def relu_kernel(
    x_ptr, x_stride_m, x_stride_n, y_ptr, y_stride_m, y_stride_n, rows, cols, BM: tl.constexpr, BN: tl.constexpr
):
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    mask = (m[:, None] < rows) & (n[None, :] < cols)
    x = tl.load(x_ptr + m[:, None] * x_stride_m + n[None, :] * x_stride_n, mask=mask, other=0.0)
    tl.store(y_ptr + m[:, None] * y_stride_m + n[None, :] * y_stride_n, tl.where(x > 0, x, 0.0), mask=mask)


def run(x, y):
    a, b = x.view(1, -1), y.view(1, -1)
    grid = (triton.cdiv(a.shape[1], 1024), 1)
    relu_kernel[grid](a, a.stride(0), a.stride(1), b, b.stride(0), b.stride(1), 1, a.shape[1], BM=1, BN=1024)
