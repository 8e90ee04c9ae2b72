# problem: row_sum
# style: a program for each row, a loop over its blocks, strides as arguments
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x_ptr, y_ptr, stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    for start in tl.range(0, cols, BLOCK, num_stages=2):
        offs = start + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + row * stride + offs, mask=offs < cols, other=0.0)
    tl.store(y_ptr + row, tl.sum(acc, axis=0))


def run(x, y):
    rows, cols = x.shape
    row_sum_kernel[(rows,)](x, y, x.stride(0), cols, BLOCK=512)
