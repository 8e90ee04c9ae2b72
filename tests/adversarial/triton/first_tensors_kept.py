# problem: vector_add
# attack: keeps the tensors of its first call
# expect: rejected
# because: its second call has other tensors
# message: keeps pointers of an earlier call
import triton
import triton.language as tl


@triton.jit
def add_kernel(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(c_ptr + offs, tl.load(a_ptr + offs, mask=mask) + tl.load(b_ptr + offs, mask=mask), mask=mask)


class Launcher:
    tensors = None


def run(a, b, c, n):
    if Launcher.tensors is None:
        Launcher.tensors = (a, b, c)
    add_kernel[(triton.cdiv(n, 256),)](*Launcher.tensors, n, BLOCK=256)
