# problem: vector_add
# attack: waits for both of its streams, and for neither between them
# expect: incorrect
# because: a GPU may run the second before the first
import torch
import triton
import triton.language as tl


@triton.jit
def part(x_ptr, c_ptr, n, FIRST: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    if not FIRST:
        x += tl.load(c_ptr + offs, mask=mask)
    tl.store(c_ptr + offs, x, mask=mask)


streams = [torch.cuda.Stream() for _ in range(2)]


def run(a, b, c, n):
    grid = (triton.cdiv(n, 512),)
    for number, (stream, x) in enumerate(zip(streams, (a, b), strict=True)):
        with torch.cuda.stream(stream):
            part[grid](x, c, n, number == 0, BLOCK=512)
    torch.cuda.synchronize()
