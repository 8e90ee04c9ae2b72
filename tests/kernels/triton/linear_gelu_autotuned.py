# problem: linear_gelu
# style: autotuned; the weight transposed by its strides; the bias and gelu behind the loop
import triton
import triton.language as tl


def configurations():
    return [
        triton.Config({"BM": bm, "BN": bn, "BK": 16}, num_warps=warps, num_stages=stages)
        for bm, bn, warps, stages in ((16, 32, 2, 2), (32, 32, 4, 3), (32, 16, 2, 2))
    ]


@triton.autotune(configs=configurations(), key=["m", "n", "k"])
@triton.jit
def linear_kernel(
    x_ptr, w_ptr, bias_ptr, y_ptr, m, n, k, sw0, sw1, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        rk = start + tl.arange(0, BK)
        x = tl.load(x_ptr + rm[:, None] * k + rk[None, :], mask=(rm[:, None] < m) & (rk[None, :] < k), other=0.0)
        w = tl.load(
            w_ptr + rk[:, None] * sw0 + rn[None, :] * sw1, mask=(rk[:, None] < k) & (rn[None, :] < n), other=0.0
        )
        acc += tl.dot(x, w, input_precision="ieee")
    z = acc + tl.load(bias_ptr + rn, mask=rn < n, other=0.0)[None, :]
    y = 0.5 * z * (1.0 + tl.erf(z * 0.7071067811865476))
    tl.store(y_ptr + rm[:, None] * n + rn[None, :], y, mask=(rm[:, None] < m) & (rn[None, :] < n))


def run(x, weight, bias, y):
    m, k = x.shape
    n = weight.shape[0]
    w = weight.t()
    grid = lambda meta: (triton.cdiv(m, meta["BM"]), triton.cdiv(n, meta["BN"]))
    linear_kernel[grid](x, w, bias, y, m, n, k, w.stride(0), w.stride(1))
