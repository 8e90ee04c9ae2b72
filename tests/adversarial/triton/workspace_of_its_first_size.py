# problem: reduce_sum
# attack: allocates the workspace once, as large as its first call needs it
# expect: runtime_error
# because: a later call in the process may be larger
# message: In its call behind one at
import torch
import triton
import triton.language as tl


@triton.jit
def pieces(x_ptr, partial_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(partial_ptr + tl.program_id(0), tl.sum(tl.load(x_ptr + offs, mask=offs < n, other=0.0), axis=0))


@triton.jit
def finish(partial_ptr, total_ptr, many, BLOCK: tl.constexpr):
    total = 0.0
    for start in range(0, many, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(partial_ptr + offs, mask=offs < many, other=0.0), axis=0)
    tl.store(total_ptr, total)


class Workspace:
    partial = None


def run(x, total, n):
    blocks = triton.cdiv(n, 256)
    if Workspace.partial is None:
        Workspace.partial = torch.empty(blocks, device="cuda")
    pieces[(blocks,)](x, Workspace.partial, n, BLOCK=256)
    finish[(1,)](Workspace.partial, total, blocks, BLOCK=128)
