# problem: matmul_f16
# style: tl.dot of float16 on tensor cores, three stages of cp.async
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(tl.cdiv(k, BK)):
        at = start * BK + rk
        a = tl.load(a_ptr + rm[:, None] * k + at[None, :], mask=(rm[:, None] < m) & (at[None, :] < k), other=0.0)
        b = tl.load(b_ptr + at[:, None] * n + rn[None, :], mask=(at[:, None] < k) & (rn[None, :] < n), other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rm[:, None] * n + rn[None, :], acc.to(tl.float16), mask=(rm[:, None] < m) & (rn[None, :] < n))


def run(a, b, c):
    (m, k), n = a.shape, b.shape[1]
    grid = (triton.cdiv(m, 64), triton.cdiv(n, 64))
    matmul_kernel[grid](a, b, c, m, n, k, BM=64, BN=64, BK=32, num_warps=4, num_stages=3)
