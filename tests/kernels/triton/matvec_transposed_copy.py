# problem: matvec
# style: a transposed copy (contiguous) and a vector in bfloat16 halves are made between kernels
import torch
import triton
import triton.language as tl


@triton.jit
def columns_kernel(at_ptr, x_ptr, head_ptr, y_ptr, m, k, ROWS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = rows < m
    acc = tl.zeros((ROWS,), tl.float32)
    for at in range(k):
        # The rounded value and what it leaves are the value itself.
        head = tl.load(head_ptr + at)
        x = head + (tl.load(x_ptr + at) - head)
        acc += tl.load(at_ptr + at * m + rows, mask=inside, other=0.0) * x
    tl.store(y_ptr + rows, acc, mask=inside)


def run(a, x):
    m, k = a.shape
    columns = a.t().contiguous()
    head = x.to(torch.bfloat16).float()
    y = a.new_empty(m)
    columns_kernel[(triton.cdiv(m, 128),)](columns, x, head, y, m, k, ROWS=128)
    return y
