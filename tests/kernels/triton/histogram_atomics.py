# problem: histogram
# style: zeros and an atomic add for each value
import triton
import triton.language as tl


@triton.jit
def count_kernel(values_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    value = tl.load(values_ptr + offs, mask=mask, other=0)
    tl.atomic_add(counts_ptr + value, 1, mask=mask)


def run(values, counts):
    counts.fill_(0)
    count_kernel[(triton.cdiv(values.numel(), 1024),)](values, counts, values.numel(), BLOCK=1024)
