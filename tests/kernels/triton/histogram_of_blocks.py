# problem: histogram
# style: tl.histogram in shared memory, then an atomic add for each bin
import triton
import triton.language as tl


@triton.jit
def count_kernel(values_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    bins = tl.histogram(tl.load(values_ptr + offs, mask=mask, other=0), 256, mask=mask)
    tl.atomic_add(counts_ptr + tl.arange(0, 256), bins)


def run(values, counts):
    counts.zero_()
    count_kernel[(triton.cdiv(values.numel(), 2048),)](values, counts, values.numel(), BLOCK=2048)
