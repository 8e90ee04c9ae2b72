# problem: reduce_sum
# attack: zeroes what it adds to in its first call alone
# expect: incorrect
# because: the second call adds to the sum of the first
import torch
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, sum_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(sum_ptr, tl.sum(tl.load(x_ptr + offs, mask=offs < n, other=0.0), axis=0))


kept = None


def run(x, total, n):
    global kept
    if kept is None:
        kept = torch.zeros(1, device="cuda")
    sum_kernel[(triton.cdiv(n, 1024),)](x, kept, n, BLOCK=1024)
    total.copy_(kept)
