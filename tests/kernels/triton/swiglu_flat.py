# problem: swiglu
# style: flattened views, a device function, evict-first loads
import triton
import triton.language as tl


@triton.jit
def silu(x):
    return x / (1.0 + tl.exp(-x))


@triton.jit
def swiglu_kernel(gate_ptr, up_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    gate = tl.load(gate_ptr + offs, mask=mask, eviction_policy="evict_first")
    up = tl.load(up_ptr + offs, mask=mask, cache_modifier=".cg")
    tl.store(y_ptr + offs, silu(gate) * up, mask=mask)


def run(gate, up, y):
    gate, up, out = gate.view(-1), up.reshape(-1), y.flatten()
    swiglu_kernel[(triton.cdiv(out.numel(), 1024),)](gate, up, out, out.numel(), BLOCK=1024)
