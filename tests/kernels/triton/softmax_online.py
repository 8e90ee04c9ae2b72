# problem: softmax
# style: the running maximum and sum of a long row, in two loops
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, y_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    most = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + offs, mask=offs < cols, other=-float("inf"))
        new = tl.maximum(most, x)
        scale = tl.where(most == -float("inf"), 0.0, tl.exp(most - new))
        total = total * scale + tl.where(x == -float("inf"), 0.0, tl.exp(x - new))
        most = new
    top = tl.max(most, axis=0)
    whole = tl.sum(tl.where(total > 0, total * tl.exp(most - top), 0.0), axis=0)
    for start in range(0, cols, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + offs, mask=offs < cols)
        tl.store(y_ptr + row * cols + offs, tl.exp(x - top) / whole, mask=offs < cols)


def run(x, y, rows, cols):
    softmax_kernel[(rows,)](x, y, cols, BLOCK=256)
