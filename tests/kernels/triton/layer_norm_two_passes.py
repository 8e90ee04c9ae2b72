# problem: layer_norm
# style: a device function for the mean, called twice; a scalar as an argument
import triton
import triton.language as tl


@triton.jit
def _mean(ptr, cols, shift, square: tl.constexpr, BLOCK: tl.constexpr):
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.where(offs < cols, tl.load(ptr + offs, mask=offs < cols, other=0.0) - shift, 0.0)
        acc += x * x if square else x
    return tl.sum(acc, axis=0) / cols


@triton.jit
def layer_norm_kernel(x_ptr, w_ptr, b_ptr, y_ptr, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * cols
    mean = _mean(x_ptr, cols, 0.0, False, BLOCK)
    scale = 1.0 / tl.sqrt(_mean(x_ptr, cols, mean, True, BLOCK) + eps)
    for start in range(0, cols, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        mask = offs < cols
        x = (tl.load(x_ptr + offs, mask=mask) - mean) * scale
        y = x * tl.load(w_ptr + offs, mask=mask) + tl.load(b_ptr + offs, mask=mask)
        tl.store(y_ptr + row * cols + offs, y, mask=mask)


def run(x, weight, bias, y, eps):
    rows, cols = x.shape
    layer_norm_kernel[(rows,)](x, weight, bias, y, cols, eps, BLOCK=256)
