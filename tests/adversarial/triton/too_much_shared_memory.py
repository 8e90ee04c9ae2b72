# problem: matmul
# attack: a product of tiles that no device has room for
# expect: runtime_error
# because: the device has no such shared memory
# message: does not fit the device
import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, k, BM: tl.constexpr, BK: tl.constexpr):
    rm, rk = tl.arange(0, BM), tl.arange(0, BK)
    acc = tl.zeros((BM, BM), dtype=tl.float32)
    for start in range(0, k, BK):
        a = tl.load(a_ptr + rm[:, None] * k + start + rk[None, :])
        b = tl.load(b_ptr + (start + rk[:, None]) * BM + rm[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rm[:, None] * BM + rm[None, :], acc)


def run(a, b, c):
    matmul_kernel[(1,)](a, b, c, a.shape[1], BM=128, BK=128, num_stages=5)
