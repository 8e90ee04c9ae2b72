# problem: vector_add
# attack: launches on a stream that nothing waits for
# expect: rejected
# because: the output may be written after the call
# message: may still be under way
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


side = torch.cuda.Stream()


def run(a, b, c, n):
    grid = (triton.cdiv(n, 512),)
    part[grid](a, c, n, True, BLOCK=512)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        part[grid](b, c, n, False, BLOCK=512)
