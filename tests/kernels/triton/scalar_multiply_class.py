# problem: scalar_multiply
# style: an object that is called, with a grid that is a function of the constants
import torch
import triton
import triton.language as tl


@triton.jit
def scale(x_ptr, y_ptr, alpha, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * alpha, mask=offs < n)


class Scale:
    block = 256

    def __call__(self, x: torch.Tensor, alpha: float) -> torch.Tensor:
        y = torch.empty_like(x)
        scale[self.grid(x)](x, y, alpha, x.numel(), BLOCK=self.block)
        return y

    def grid(self, x):
        return lambda constants: (triton.cdiv(x.numel(), constants["BLOCK"]),)


def run(x, alpha):
    return Scale()(x, alpha)
