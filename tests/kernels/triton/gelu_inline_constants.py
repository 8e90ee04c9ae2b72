# problem: gelu
# style: constants at the top of the file, eviction hints, tl.math
import triton
import triton.language as tl

ROOT_HALF = tl.constexpr(0.7071067811865476)


@triton.jit
def gelu(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, eviction_policy="evict_first")
    tl.store(y_ptr + offs, 0.5 * x * (1.0 + tl.math.erf(x * ROOT_HALF)), mask=offs < n)


def run(x, y, n):
    gelu[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024, num_warps=4, num_stages=2)
