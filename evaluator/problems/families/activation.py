"""Activation functions: relu, gelu and swiglu."""

import math
from dataclasses import replace
from typing import Final

from evaluator.problems.arrays import doubles, erfc, sigmoid
from evaluator.problems.edges import FLAT_EDGES, LAST_FLAT, MATRIX_EDGES, MOST_ROWS
from evaluator.problems.families.elementwise import (
    FLAT_RANGE,
    FLAT_SIZES,
    FLAT_TIMING,
    MOST,
    PROBE_SIZES,
    flat_mixture,
    plain_distributions,
)
from evaluator.problems.generators import (
    constant_rows,
    distribution,
    exact,
    fine,
    hidden_sizes,
    normal,
    probe,
    roundings,
    signed_zeros,
    uniform,
)
from evaluator.problems.mixtures import SPARSE, mixture, sparse
from evaluator.problems.problem import (
    Arrays,
    Expected,
    Kernel,
    Problem,
    SizeRange,
    Sizes,
    Tensor,
    Work,
)
from evaluator.problems.sampling import element_wise
from evaluator.problems.structured import structured_distributions

_X = Tensor("x", ("n",))


# relu -------------------------------------------------------------------------------------------------------------


def _relu_oracle(arrays: Arrays, sizes: Sizes) -> dict[str, Expected]:
    xp, x = doubles(arrays, "x")
    return {"y": Expected(xp.clip(x, 0.0, None), xp.zeros_like(x))}


_RELU_NAIVE = """\
__global__ void relu_kernel(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[i] > 0.0f ? x[i] : 0.0f;
    }
}
"""

_RELU_FAST = """\
// assay: launch relu_float4 grid=(min(ceil_div(n, 1024), 16384)) block=(256) args=(x, y, n)

__global__ void __launch_bounds__(256) relu_float4(const float* __restrict__ x, float* __restrict__ y, int n)
{
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    const int threads = gridDim.x * blockDim.x;
    const int quads = n / 4;
    for (int q = thread; q < quads; q += threads) {
        const float4 v = reinterpret_cast<const float4*>(x)[q];
        reinterpret_cast<float4*>(y)[q] =
            make_float4(fmaxf(v.x, 0.0f), fmaxf(v.y, 0.0f), fmaxf(v.z, 0.0f), fmaxf(v.w, 0.0f));
    }
    const int tail = 4 * quads + thread;
    if (thread < n % 4) {
        y[tail] = fmaxf(x[tail], 0.0f);
    }
}
"""

RELU: Final = Problem(
    id="relu",
    version="4",
    tier=0,
    title="Rectified linear unit",
    statement=(
        "y[i] = max(x[i], 0) for 0 <= i < n, in float32. Either sign of zero will do where x[i] is zero or negative. "
        "Values may be any finite ones. "
        "n may be any size in its range."
    ),
    inputs=(_X,),
    outputs=(Tensor("y", ("n",)),),
    sizes=("n",),
    example_sizes=FLAT_SIZES,
    hidden_sizes=hidden_sizes(n=MOST),
    serves=FLAT_RANGE,
    edge_sizes=FLAT_EDGES,
    distributions=plain_distributions((_X,)),
    mixture=flat_mixture((_X,)),
    probes=(probe("fine", "values that need all 23 fraction bits of float32", (_X,), fine(), exact(), PROBE_SIZES),),
    tolerance=exact(),
    oracle=_relu_oracle,
    sampler=element_wise,
    work=lambda sizes: Work(4 * sizes["n"], 4 * sizes["n"], sizes["n"]),
    naive=Kernel("relu_kernel", _RELU_NAIVE, "one thread for each element"),
    fast=Kernel("relu_float4", _RELU_FAST, "float4 loads and stores, grid-stride loop, scalar tail"),
    timing_sizes=FLAT_TIMING,
    baseline="F.relu(x)",
)


# gelu -------------------------------------------------------------------------------------------------------------


def _gelu_oracle(arrays: Arrays, sizes: Sizes) -> dict[str, Expected]:
    xp, x = doubles(arrays, "x")
    value = 0.5 * x * erfc(-x * math.sqrt(0.5))  # 1 + erf(t) = erfc(-t), without its cancellation
    # The terms are x/2 and x/2 * erf. Below -8 they cancel to exactly 0 in float32, so nothing grows beyond there.
    return {"y": Expected(value, xp.hypot(value, 0.5 * xp.clip(xp.abs(x), None, 8.0)))}


_GELU_NAIVE = """\
__global__ void gelu_kernel(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = 0.5f * x[i] * (1.0f + erff(x[i] / sqrtf(2.0f)));
    }
}
"""

_GELU_FAST = """\
// assay: launch gelu_float4 grid=(min(ceil_div(n, 1024), 16384)) block=(256) args=(x, y, n)

__device__ __forceinline__ float gelu(float x)
{
    const float half = 0.5f * x;
    return fmaf(half, erff(x * 0.70710678118654752f), half);
}

__global__ void __launch_bounds__(256) gelu_float4(const float* __restrict__ x, float* __restrict__ y, int n)
{
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    const int threads = gridDim.x * blockDim.x;
    const int quads = n / 4;
    for (int q = thread; q < quads; q += threads) {
        const float4 v = reinterpret_cast<const float4*>(x)[q];
        reinterpret_cast<float4*>(y)[q] = make_float4(gelu(v.x), gelu(v.y), gelu(v.z), gelu(v.w));
    }
    const int tail = 4 * quads + thread;
    if (thread < n % 4) {
        y[tail] = gelu(x[tail]);
    }
}
"""

_GELU_ROUNDINGS = (
    "erff is off by at most 2 units in the last place (4 roundings), its argument, the sum with 1 and the products "
    "by one each, with and without --use_fast_math; the scale is the 2-norm of y[i] and x[i] / 2 (at most 4), since "
    "0.5 * x * (1 + erf(...)) cancels for negative x. The tanh approximation is off by up to 5e-4 and fails"
)

_WIDE: Final = distribution("wide", "normal values times 4", (_X,), normal(4.0))

GELU: Final = Problem(
    id="gelu",
    version="4",
    tier=0,
    title="Gaussian error linear unit (exact)",
    statement=(
        "y[i] = 0.5 * x[i] * (1 + erf(x[i] / sqrt(2))) for 0 <= i < n, in float32: the exact GELU, not its tanh "
        "approximation. For large |x[i]| the answer is x[i] or 0, never NaN. n may be any size in its range."
    ),
    inputs=(_X,),
    outputs=(Tensor("y", ("n",)),),
    sizes=("n",),
    example_sizes=FLAT_SIZES,
    hidden_sizes=hidden_sizes(n=MOST),
    serves=FLAT_RANGE,
    edge_sizes=FLAT_EDGES,
    distributions=(*plain_distributions((_X,), squares=True), _WIDE),
    mixture=flat_mixture((_X,), _WIDE, squares=True),
    probes=(
        probe(
            "fine",
            "values that need all 23 fraction bits of float32",
            (_X,),
            fine(),
            roundings(16, _GELU_ROUNDINGS),
            PROBE_SIZES,
        ),
    ),
    tolerance=roundings(16, _GELU_ROUNDINGS),
    oracle=_gelu_oracle,
    sampler=element_wise,
    work=lambda sizes: Work(4 * sizes["n"], 4 * sizes["n"], 4 * sizes["n"]),
    naive=Kernel("gelu_kernel", _GELU_NAIVE, "one thread for each element, the formula as it stands"),
    fast=Kernel("gelu_float4", _GELU_FAST, "float4 loads and stores, no division, one fused multiply-add at the end"),
    timing_sizes=FLAT_TIMING,
    baseline="F.gelu(x)",
)


# swiglu -----------------------------------------------------------------------------------------------------------

_GATE, _UP = Tensor("gate", ("rows", "cols")), Tensor("up", ("rows", "cols"))


def _swiglu_oracle(arrays: Arrays, sizes: Sizes) -> dict[str, Expected]:
    xp, gate, up = doubles(arrays, "gate", "up")
    value = gate * sigmoid(gate) * up
    # Rounding the argument of exp by one part in 2**24 changes exp(-gate), and for negative gates the result, by
    # |gate| parts: that is the condition of the problem, not a fault of the kernel.
    return {"y": Expected(value, xp.abs(value) * xp.sqrt(1.0 + xp.clip(gate, None, 0.0) ** 2))}


_SWIGLU_NAIVE = """\
__global__ void swiglu_kernel(const float* gate, const float* up, float* y, int rows, int cols)
{
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < (long long)rows * cols) {
        float g = gate[i];
        float silu = g / (1.0f + expf(-g));
        y[i] = silu * up[i];
    }
}
"""

_SWIGLU_FAST = """\
// assay: launch swiglu_quads grid=(min(ceil_div(rows * cols, 1024), 8192)) block=(256) args=(gate, up, y, rows, cols)

__device__ __forceinline__ float swiglu(float gate, float up)
{
    return __fdiv_rn(gate, 1.0f + __expf(-gate)) * up;
}

__global__ void __launch_bounds__(256)
swiglu_quads(const float* __restrict__ gate, const float* __restrict__ up, float* __restrict__ y, int rows, int cols)
{
    const long long count = (long long)rows * cols;
    const long long quads = count / 4;
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long threads = (long long)gridDim.x * blockDim.x;
    for (long long q = thread; q < quads; q += threads) {
        const float4 g = reinterpret_cast<const float4*>(gate)[q];
        const float4 u = reinterpret_cast<const float4*>(up)[q];
        reinterpret_cast<float4*>(y)[q] =
            make_float4(swiglu(g.x, u.x), swiglu(g.y, u.y), swiglu(g.z, u.z), swiglu(g.w, u.w));
    }
    const long long tail = 4 * quads + thread;
    if (thread < count % 4) {
        y[tail] = swiglu(gate[tail], up[tail]);
    }
}
"""

_SWIGLU_ROUNDINGS = (
    "exp, also as __expf, is off by at most 2 + 1.2 * |gate| units in the last place, the division, also as "
    "__fdividef, by 2 units, the sum and the products by one rounding each; the scale is |y| * sqrt(1 + gate^2) for "
    "negative gates and |y| for the others"
)

_SWIGLU_DISTRIBUTIONS: Final = (
    distribution("normal", "standard normal values", (_GATE, _UP), normal()),
    distribution("wide", "gates times 10: most are saturated", (_GATE, _UP), normal(), {"gate": normal(10.0)}),
    # Not below, where exp(-gate) and the reciprocal of the sum come near the ends of float32.
    replace(
        distribution(
            "deep",
            "gates from -86.5 to 86.5 and large factors, so that no product vanishes",
            (_GATE, _UP),
            normal(1e20),
            {"gate": uniform(-86.5, 86.5)},
        ),
        squares_fit=False,
    ),
    distribution("large", "normal values times 1e15: exp overflows", (_GATE, _UP), normal(1e15)),
    distribution("tiny", "normal values times 1e-15: silu(g) is g / 2", (_GATE, _UP), normal(1e-15)),
    distribution("signed_zeros", "+0, -0 and small values mixed", (_GATE, _UP), signed_zeros()),
    distribution("constant_rows", "one value for each row", (_GATE, _UP), constant_rows()),
    # Of gates below -88 exp overflows in float32 though the answer, times a large `up`, need not vanish.
    *(d for d in structured_distributions((_GATE, _UP), 8.0, part_factor=64.0) if d.name != "several_scales"),
)
_SWIGLU_SPARSE: Final = distribution("sparse", SPARSE, (_GATE, _UP), sparse)

SWIGLU: Final = Problem(
    id="swiglu",
    version="4",
    tier=3,
    title="SwiGLU",
    statement=(
        "y[r, c] = silu(gate[r, c]) * up[r, c] with silu(g) = g / (1 + exp(-g)), in float32; all three matrices are "
        "row-major of shape rows x cols. For gates of large magnitude silu is g or 0: exp may overflow, the answer "
        "may not become NaN. up may be as large as 2^70. rows and cols may be any sizes in their ranges, and cols "
        "need not be a multiple of 4."
    ),
    inputs=(_GATE, _UP),
    outputs=(Tensor("y", ("rows", "cols")),),
    sizes=("rows", "cols"),
    example_sizes=({"rows": 256, "cols": 1024}, {"rows": 33, "cols": 500}),
    hidden_sizes=hidden_sizes(rows=300, cols=600),
    serves=SizeRange(MOST_ROWS, (_GATE, _UP), LAST_FLAT),
    edge_sizes=MATRIX_EDGES,
    distributions=_SWIGLU_DISTRIBUTIONS,
    mixture=mixture((*_SWIGLU_DISTRIBUTIONS, _SWIGLU_SPARSE), (_GATE, _UP), "rows"),
    probes=(
        probe(
            "fine",
            "values that need all 23 fraction bits of float32",
            (_GATE, _UP),
            fine(),
            roundings(16, _SWIGLU_ROUNDINGS),
            {"rows": 7, "cols": 601},
        ),
    ),
    tolerance=roundings(16, _SWIGLU_ROUNDINGS),
    oracle=_swiglu_oracle,
    sampler=element_wise,
    work=lambda sizes: Work(
        8 * sizes["rows"] * sizes["cols"], 4 * sizes["rows"] * sizes["cols"], 5 * sizes["rows"] * sizes["cols"]
    ),
    naive=Kernel("swiglu_kernel", _SWIGLU_NAIVE, "one thread for each element"),
    fast=Kernel("swiglu_quads", _SWIGLU_FAST, "float4 loads and stores over the flattened matrices, __expf"),
    timing_sizes={"rows": 4096, "cols": 4096},
    baseline="F.silu(gate) * up",
)
