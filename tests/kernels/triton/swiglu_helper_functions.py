# problem: swiglu
# style: helper functions that are compiled too, two dimensions of blocks
import triton
import triton.language as tl


@triton.jit
def silu(x):
    return x * tl.sigmoid(x)


@triton.jit
def places(cols, BLOCK: tl.constexpr):
    row, col = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    return row * cols + col, col < cols


@triton.jit
def swiglu(gate_ptr, up_ptr, y_ptr, cols, BLOCK: tl.constexpr):
    at, mask = places(cols, BLOCK)
    tl.store(y_ptr + at, silu(tl.load(gate_ptr + at, mask=mask)) * tl.load(up_ptr + at, mask=mask), mask=mask)


def run(gate, up, y, rows, cols):
    swiglu[rows, triton.cdiv(cols, 128)](gate, up, y, cols, BLOCK=128, num_warps=2)
