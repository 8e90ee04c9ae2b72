# problem: prefix_sum
# style: tl.cumsum in blocks, their sums in one program, and an addition
import triton
import triton.language as tl


@triton.jit
def block_scan(x_ptr, y_ptr, sums_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.store(y_ptr + offs, tl.cumsum(x, axis=0), mask=offs < n)
    tl.store(sums_ptr + pid, tl.sum(x, axis=0))


@triton.jit
def scan_sums(sums_ptr, before_ptr, many, BLOCK: tl.constexpr):
    total = 0.0
    for start in range(0, many, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        sums = tl.load(sums_ptr + offs, mask=offs < many, other=0.0)
        tl.store(before_ptr + offs, total + tl.cumsum(sums, axis=0) - sums, mask=offs < many)
        total += tl.sum(sums, axis=0)


@triton.jit
def add_before(y_ptr, before_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + offs, mask=offs < n)
    tl.store(y_ptr + offs, y + tl.load(before_ptr + pid), mask=offs < n)


def run(x, y):
    n = x.numel()
    many = triton.cdiv(n, 1024)
    sums, before = x.new_empty(many), x.new_empty(many)
    block_scan[(many,)](x, y, sums, n, BLOCK=1024)
    scan_sums[(1,)](sums, before, many, BLOCK=1024)
    add_before[(many,)](y, before, n, BLOCK=1024)
