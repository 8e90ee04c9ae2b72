# problem: rms_norm
# style: KernelAgent's kernel_function, with a parameter's short name, a default and a buffer that it may be given
import torch
import triton
import triton.language as tl


@triton.jit
def normalise_row(x_ptr, scale_ptr, y_ptr, width, eps, TILE: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * width
    total = tl.zeros((TILE,), tl.float32)
    for at in range(0, width, TILE):
        offs = at + tl.arange(0, TILE)
        x = tl.load(x_ptr + start + offs, mask=offs < width, other=0.0)
        total += x * x
    factor = 1.0 / tl.sqrt(tl.sum(total, axis=0) / width + eps)
    for at in range(0, width, TILE):
        offs = at + tl.arange(0, TILE)
        inside = offs < width
        x = tl.load(x_ptr + start + offs, mask=inside, other=0.0)
        scale = tl.load(scale_ptr + offs, mask=inside, other=0.0)
        tl.store(y_ptr + start + offs, x * factor * scale, mask=inside)


def kernel_function(x, w=None, eps=1e-3, out=None):
    height, width = x.shape
    if out is None:
        out = torch.empty_like(x)
    normalise_row[(height,)](x, w, out, width, eps, TILE=256)
    return out
