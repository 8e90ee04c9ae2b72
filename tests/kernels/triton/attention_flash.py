# problem: attention
# style: a running softmax over tiles of keys, two tl.dot in float32
import math

import triton
import triton.language as tl


@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, o_ptr, seq, dim, scale, Q: tl.constexpr, K: tl.constexpr, D: tl.constexpr):
    head = tl.program_id(1) * seq * dim
    rows, d = tl.program_id(0) * Q + tl.arange(0, Q), tl.arange(0, D)
    q_mask = (rows[:, None] < seq) & (d[None, :] < dim)
    q = tl.load(q_ptr + head + rows[:, None] * dim + d[None, :], mask=q_mask, other=0.0) * scale
    most = tl.full((Q,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((Q,), dtype=tl.float32)
    acc = tl.zeros((Q, D), dtype=tl.float32)
    for start in range(0, seq, K):
        keys = start + tl.arange(0, K)
        kv_mask = (keys[:, None] < seq) & (d[None, :] < dim)
        at = head + keys[:, None] * dim + d[None, :]
        k = tl.load(k_ptr + at, mask=kv_mask, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee")
        s = tl.where(keys[None, :] < seq, s, -float("inf"))
        new = tl.maximum(most, tl.max(s, axis=1))
        p = tl.exp(s - new[:, None])
        fade = tl.exp(most - new)
        total = total * fade + tl.sum(p, axis=1)
        v = tl.load(v_ptr + at, mask=kv_mask, other=0.0)
        acc = acc * fade[:, None] + tl.dot(p, v, input_precision="ieee")
        most = new
    tl.store(o_ptr + head + rows[:, None] * dim + d[None, :], acc / total[:, None], mask=q_mask)


def run(q, k, v, o):
    heads, seq, dim = q.shape
    D = max(16, triton.next_power_of_2(dim))
    attention_kernel[(triton.cdiv(seq, 16), heads)](q, k, v, o, seq, dim, 1 / math.sqrt(dim), Q=16, K=32, D=D)
