"""Products of matrices and vectors: matvec, matmul, linear_gelu, matmul_f16.

Precision is caught by every trial, for the oracles state what sums of so few terms explain. Two kinds of inputs are
narrower still: those of which one term, or a few, outweigh all others and need all 24 bits, and those whose every
partial sum is a float32 number, so that float32 is exact in any order while anything shorter, of operands or of the
accumulator, is not.
"""

import math
from typing import Final

from common.wire import DType
from evaluator.problems import error_bounds
from evaluator.problems.arrays import Array, Rng, Shape, cast, doubles, normal_below
from evaluator.problems.edges import LAST_FLAT, MATVEC_EDGES, MOST_MATVEC, MOST_PRODUCT, PRODUCT_EDGES
from evaluator.problems.families.product_kernel import tiled_product
from evaluator.problems.freivalds import product_check
from evaluator.problems.generators import (
    EPSILON_F16,
    Maker,
    cancellation,
    constant,
    constant_rows,
    distribution,
    exact,
    fine,
    hidden_sizes,
    large,
    longer_sums,
    mixed_scales,
    normal,
    one_term,
    probe,
    repeated,
    roundings,
    signed_zeros,
    summation,
    tiny,
    uniform,
)
from evaluator.problems.problem import (
    Arrays,
    Distribution,
    Expected,
    Kernel,
    Probe,
    Problem,
    SizeRange,
    Sizes,
    Tensor,
    Tolerance,
    Work,
)
from evaluator.problems.sampling import dot_products, row_wise
from evaluator.problems.structured import FEW_MATTER, dominated, few_matter, structured_distributions

_CHAIN: Final = 4096
"""Longest chain of additions that the tolerances admit as they are."""

_ROUNDINGS: Final = 16
"""Roundings of one product: 1 in float32, more where it is put together from shorter numbers without a loss."""


def _signs(rng: Rng, shape: Shape) -> Array:
    """+1 and -1."""
    return rng.signs(shape)


def _product_distributions(tensors: tuple[Tensor, ...], right_axis: int) -> tuple[Distribution, ...]:
    """For sums over the last axis of the first tensor and over `right_axis` of the second."""
    left, right = tensors[0].name, tensors[1].name
    return (
        distribution("normal", "standard normal values", tensors, normal()),
        distribution("large", "normal values times 1e15: products near 1e30", tensors, large()),
        distribution("tiny", "normal values times 1e-15: products near 1e-30", tensors, tiny()),
        distribution(
            "cancellation",
            "terms in pairs that cancel but for a thousandth",
            tensors,
            normal(),
            {left: cancellation(-1), right: repeated(right_axis)},
        ),
        distribution("mixed_scales", "magnitudes from 1e-6 to 1e6", tensors, mixed_scales()),
        distribution("signed_zeros", "+0, -0 and small values mixed", tensors, signed_zeros(), {right: normal()}),
        distribution("few_matter", FEW_MATTER, tensors, fine(), {left: few_matter(fine())}),
        distribution("constant_rows", "one value for each row", tensors, constant_rows()),
        *structured_distributions(tensors),
    )


def _product_probes(
    tensors: tuple[Tensor, ...], right_axis: int, sizes: tuple[Sizes, Sizes], count: float, exact_sums: Tolerance
) -> tuple[Probe, ...]:
    """One term for each output at the first size; sums of which float32 rounds none at the second."""
    left, right = tensors[0].name, tensors[1].name
    rest = {tensor.name: constant(0.0) for tensor in tensors[2:]}
    short: Maker = fine(13)
    return (
        probe(
            "one_term",
            "one term of each output outweighs all others; both factors need all 24 bits",
            tensors,
            fine(),
            one_term(count),
            sizes[0],
            rest | {right: dominated(fine(), right_axis)},
        ),
        probe(
            f"exact_sums_{left}",
            f"{left} needs 14 bits and {right} is +1 or -1: float32 rounds no partial sum in any order",
            tensors,
            short,
            exact_sums,
            sizes[1],
            {right: _signs},
        ),
        probe(
            f"exact_sums_{right}",
            f"{right} needs 14 bits and {left} is +1 or -1: float32 rounds no partial sum in any order",
            tensors,
            short,
            exact_sums,
            sizes[1],
            {left: _signs},
        ),
    )


def _bytes(tensors: tuple[Tensor, ...], sizes: Sizes) -> int:
    return sum(math.prod(tensor.shape_at(sizes)) * tensor.dtype.size_bytes for tensor in tensors)


_MATVEC_IN = (Tensor("a", ("m", "k")), Tensor("x", ("k",)))
_MATVEC_OUT = (Tensor("y", ("m",)),)


def _matvec_oracle(inputs: Arrays, sizes: Sizes) -> dict[str, Expected]:
    xp, a, x = doubles(inputs, "a", "x")
    value = a @ x
    scale = xp.sqrt(a**2 @ x**2 + value**2)
    relative = error_bounds.of_products(a, x[:, None], scale[:, None], _ROUNDINGS)
    longer = longer_sums(sizes["k"], _CHAIN)
    return {"y": Expected(value, scale, relative if isinstance(relative, float) else relative[:, 0], longer)}


_MATVEC_NAIVE = r"""
// assay: launch matvec_naive grid=(ceil_div(m, 256)) block=(256) args=(a, x, y, m, k)
__global__ void matvec_naive(const float* a, const float* x, float* y, int m, int k)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m) return;
    float sum = 0.0f;
    for (int i = 0; i < k; i++) sum += a[(size_t)row * k + i] * x[i];
    y[row] = sum;
}
"""

_MATVEC_FAST = r"""
// assay: launch matvec_fast grid=(ceil_div(m, 8)) block=(256) args=(a, x, y, m, k)
__global__ void matvec_fast(const float* __restrict__ a, const float* __restrict__ x, float* __restrict__ y,
                            int m, int k)
{
    int lane = threadIdx.x % 32;
    int row = blockIdx.x * 8 + threadIdx.x / 32;
    if (row >= m) return;  // a whole warp at once
    const float* line = a + (size_t)row * k;
    float sum = 0.0f;
    if (k % 4 == 0) {  // then each row begins at a multiple of 16 bytes
        const float4* line4 = reinterpret_cast<const float4*>(line);
        const float4* x4 = reinterpret_cast<const float4*>(x);
        for (int i = lane; i < k / 4; i += 32) {
            float4 p = line4[i], q = x4[i];
            sum += p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
        }
    } else {
        for (int i = lane; i < k; i += 32) sum += line[i] * x[i];
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (lane == 0) y[row] = sum;
}
"""

MATVEC: Final = Problem(
    id="matvec",
    version="4",
    tier=2,
    title="Matrix times vector",
    statement=(
        "y[i] = sum over j of a[i, j] * x[j], for a row-major matrix a of m rows and k columns, in float32. "
        "m and k need not be multiples of anything; inputs are finite and no sum overflows. "
        "Products and sums must keep float32's 24 bits; the order of summation is free."
    ),
    inputs=_MATVEC_IN,
    outputs=_MATVEC_OUT,
    sizes=("m", "k"),
    example_sizes=({"m": 1024, "k": 1024}, {"m": 37, "k": 4096}, {"m": 5000, "k": 63}),
    hidden_sizes=hidden_sizes(m=1100, k=1100),
    serves=SizeRange(MOST_MATVEC, _MATVEC_IN),
    edge_sizes=MATVEC_EDGES,
    distributions=_product_distributions(_MATVEC_IN, 0),
    probes=(
        *_product_probes(_MATVEC_IN, 0, ({"m": 256, "k": 128}, {"m": 131, "k": 1021}), _ROUNDINGS, exact())[1:],
        probe(
            "one_term",
            "one element of each row of a outweighs all others; both factors need all 24 bits",
            _MATVEC_IN,
            fine(),
            one_term(_ROUNDINGS),
            {"m": 1024, "k": 1024},
            {"a": dominated(fine())},
        ),
    ),
    tolerance=summation(_CHAIN),
    oracle=_matvec_oracle,
    sampler=row_wise("a", length="k"),
    work=lambda s: Work(_bytes(_MATVEC_IN, s), _bytes(_MATVEC_OUT, s), 2 * s["m"] * s["k"]),
    naive=Kernel("matvec_naive", _MATVEC_NAIVE, "One thread for each row: neighbours read k elements apart."),
    fast=Kernel("matvec_fast", _MATVEC_FAST, "One warp for each row, 16-byte loads where aligned, warp shuffles."),
    timing_sizes={"m": 8192, "k": 4096},
    baseline="torch.mv(a, x)",
)

_MATMUL_IN = (Tensor("a", ("m", "k")), Tensor("b", ("k", "n")))
_MATMUL_OUT = (Tensor("c", ("m", "n")),)


def _matmul_oracle(inputs: Arrays, sizes: Sizes) -> dict[str, Expected]:
    xp, a, b = doubles(inputs, "a", "b")
    value = a @ b
    scale = xp.sqrt(a**2 @ b**2 + value**2)
    relative = error_bounds.of_products(a, b, scale, _ROUNDINGS)
    return {"c": Expected(value, scale, relative, longer_sums(sizes["k"], _CHAIN))}


_MATMUL_NAIVE = r"""
// assay: launch matmul_naive grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)
__global__ void matmul_naive(const float* a, const float* b, float* c, int m, int n, int k)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n) return;
    float sum = 0.0f;
    for (int i = 0; i < k; i++) sum += a[(size_t)row * k + i] * b[(size_t)i * n + column];
    c[(size_t)row * n + column] = sum;
}
"""

_MATMUL_FAST = tiled_product(
    name="matmul_fast",
    parameters="const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c",
    arguments="a, b, c",
    result="sum[r][j]",
)

MATMUL: Final = Problem(
    id="matmul",
    version="4",
    tier=2,
    title="Matrix times matrix",
    statement=(
        "c[i, j] = sum over l of a[i, l] * b[l, j], for row-major matrices a[m, k], b[k, n] and c[m, n], in float32. "
        "m, n and k need not be multiples of anything; inputs are finite and no sum overflows. "
        "Products and sums must keep float32's 24 bits (no TF32, no float16); the order of summation is free."
    ),
    inputs=_MATMUL_IN,
    outputs=_MATMUL_OUT,
    sizes=("m", "n", "k"),
    example_sizes=({"m": 128, "n": 128, "k": 128}, {"m": 64, "n": 96, "k": 160}, {"m": 256, "n": 256, "k": 256}),
    hidden_sizes=hidden_sizes(m=129, n=129, k=257),
    serves=SizeRange(MOST_PRODUCT, (*_MATMUL_IN, *_MATMUL_OUT), LAST_FLAT),
    edge_sizes=PRODUCT_EDGES,
    distributions=_product_distributions(_MATMUL_IN, 0),
    probes=_product_probes(
        _MATMUL_IN, 0, ({"m": 128, "n": 128, "k": 128}, {"m": 61, "n": 67, "k": 257}), _ROUNDINGS, exact()
    ),
    tolerance=summation(_CHAIN),
    oracle=_matmul_oracle,
    sampler=dot_products("a", "b"),
    work=lambda s: Work(_bytes(_MATMUL_IN, s), _bytes(_MATMUL_OUT, s), 2 * s["m"] * s["n"] * s["k"]),
    naive=Kernel("matmul_naive", _MATMUL_NAIVE, "One thread for each element of c, in blocks of 16 x 16."),
    fast=Kernel(
        "matmul_fast",
        _MATMUL_FAST,
        "64 x 64 tiles in shared memory, double buffered; 4 x 4 results in each thread's registers.",
    ),
    timing_sizes={"m": 2048, "n": 2048, "k": 2048},
    baseline="torch.matmul(a, b)",
    sketch=product_check("a", "b", "c", _CHAIN),
)

_LINEAR_IN = (Tensor("x", ("m", "k")), Tensor("weight", ("n", "k")), Tensor("bias", ("n",)))
_LINEAR_OUT = (Tensor("y", ("m", "n")),)


def _linear_gelu_oracle(inputs: Arrays, sizes: Sizes) -> dict[str, Expected]:
    """The scale is that of the sum before GELU, bias included: its slope is at most 1.13."""
    xp, x, weight, bias = doubles(inputs, "x", "weight", "bias")
    before = x @ weight.mT + bias
    scale = xp.sqrt(x**2 @ (weight**2).mT + bias**2 + before**2)
    # The bias is one term more, and evaluating GELU takes a few roundings.
    relative = error_bounds.of_products(x, weight.mT, scale, _ROUNDINGS + 16)
    longer = longer_sums(sizes["k"], _CHAIN)
    return {"y": Expected(before * normal_below(before), scale, relative, longer)}


_LINEAR_GELU_NAIVE = r"""
// assay: launch linear_gelu grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(x, weight, bias, y, m, n, k)
__global__ void linear_gelu(const float* x, const float* weight, const float* bias, float* y, int m, int n, int k)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n) return;
    float sum = bias[column];
    for (int i = 0; i < k; i++) sum += x[(size_t)row * k + i] * weight[(size_t)column * k + i];
    y[(size_t)row * n + column] = 0.5f * sum * (1.0f + erff(sum * 0.70710678f));
}
"""

_LINEAR_GELU_FAST = tiled_product(
    name="linear_gelu_fast",
    parameters="""const float* __restrict__ x, const float* __restrict__ weight,
        const float* __restrict__ bias, float* __restrict__ y""",
    arguments="x, weight, bias, y",
    result="gelu(sum[r][j] + bias[column + j])",
    right_transposed=True,
    preamble="__device__ float gelu(float z) { return 0.5f * z * (1.0f + erff(z * 0.70710678f)); }",
)

LINEAR_GELU: Final = Problem(
    id="linear_gelu",
    version="4",
    tier=3,
    title="Linear layer with GELU",
    statement=(
        "y[i, j] = gelu(bias[j] + sum over l of x[i, l] * weight[j, l]), for row-major x[m, k], weight[n, k] (a row "
        "for each output feature, as in torch.nn.Linear) and y[m, n], in float32. "
        "gelu(z) = z * (1 + erf(z / sqrt(2))) / 2 exactly, not its tanh approximation. "
        "m, n and k need not be multiples of anything; "
        "inputs are finite and no sum overflows. Products and sums must keep float32's 24 bits; the order of "
        "summation is free."
    ),
    inputs=_LINEAR_IN,
    outputs=_LINEAR_OUT,
    sizes=("m", "n", "k"),
    example_sizes=({"m": 128, "n": 128, "k": 128}, {"m": 64, "n": 96, "k": 160}, {"m": 96, "n": 256, "k": 64}),
    hidden_sizes=hidden_sizes(m=129, n=129, k=257),
    serves=SizeRange(MOST_PRODUCT, (*_LINEAR_IN, *_LINEAR_OUT), LAST_FLAT),
    edge_sizes=PRODUCT_EDGES,
    distributions=(
        *_product_distributions(_LINEAR_IN, -1),
        distribution(
            "around_zero",
            "sums of a few units, where GELU bends",
            _LINEAR_IN,
            normal(0.15),
            {"bias": uniform(-3, 3)},
        ),
    ),
    probes=_product_probes(
        _LINEAR_IN,
        -1,
        ({"m": 128, "n": 128, "k": 128}, {"m": 61, "n": 67, "k": 257}),
        _ROUNDINGS + 8,
        roundings(8, "the sum needs none, evaluating GELU takes a few"),
    ),
    tolerance=summation(_CHAIN, 16.0, why="GELU's slope is at most 1.13, and evaluating it takes a few roundings."),
    oracle=_linear_gelu_oracle,
    sampler=dot_products("x", "weight", transposed=True, by_column=("bias",)),
    work=lambda s: Work(_bytes(_LINEAR_IN, s), _bytes(_LINEAR_OUT, s), 2 * s["m"] * s["n"] * s["k"]),
    naive=Kernel("linear_gelu_naive", _LINEAR_GELU_NAIVE, "One thread for each element of y, in blocks of 16 x 16."),
    fast=Kernel(
        "linear_gelu_fast",
        _LINEAR_GELU_FAST,
        "64 x 64 tiles in shared memory, double buffered; bias and GELU applied in registers before the one store.",
    ),
    timing_sizes={"m": 2048, "n": 2048, "k": 2048},
    baseline="F.gelu(F.linear(x, weight, bias))",
)

_HALF_IN = (Tensor("a", ("m", "k"), DType.FLOAT16), Tensor("b", ("k", "n"), DType.FLOAT16))
_HALF_OUT = (Tensor("c", ("m", "n"), DType.FLOAT16),)


def _matmul_f16_oracle(inputs: Arrays, sizes: Sizes) -> dict[str, Expected]:
    """The one rounding to float16 is relative to the element, the others, in float32, to the 2-norm of its terms."""
    xp, a, b = doubles(inputs, "a", "b")
    value = a @ b
    scale = xp.sqrt(a**2 @ b**2 + value**2)
    share = xp.abs(value) / xp.where(scale > 0, scale, 1.0)
    relative = EPSILON_F16 * share + 2.0 * error_bounds.of_products(a, b, scale, _ROUNDINGS)
    return {"c": Expected(value, scale, relative, longer_sums(sizes["k"], _CHAIN))}


def _draw_lost_partials(rng: Rng, sizes: Sizes) -> dict[str, Array]:
    """Integers of which pairs of large ones, far apart, leave -1, 0 or 1."""
    m, n, k = sizes["m"], sizes["n"], sizes["k"]
    place = rng.xp.argsort(rng.uniform(0.0, 1.0, (k,)))  # a permutation
    first, second = place[: k // 2], place[k // 2 : k // 2 * 2]
    a = rng.xp.astype(rng.integers(-1, 1, (m, k)), rng.xp.float64)
    big = rng.integers(512, 2000, (m, k // 2)) * rng.signs((m, k // 2))
    a[:, first] = big
    a[:, second] -= big
    b = rng.signs((k, n))
    b[second] = b[first]
    return {"a": cast(a, DType.FLOAT16), "b": cast(b, DType.FLOAT16)}


_LOST_PARTIALS: Final = Distribution(
    "lost_partials",
    "pairs of large integers that cancel to -1, 0 or 1: every float32 partial sum is exact, and so is the result in "
    "float16, but partial sums above 2048 in float16 lose the answer in every order",
    _draw_lost_partials,
)

_MATMUL_F16_NAIVE = r"""
// assay: launch matmul_f16_naive grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)
#include <cuda_fp16.h>
__global__ void matmul_f16_naive(const __half* a, const __half* b, __half* c, int m, int n, int k)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n) return;
    float sum = 0.0f;
    for (int i = 0; i < k; i++)
        sum += __half2float(a[(size_t)row * k + i]) * __half2float(b[(size_t)i * n + column]);
    c[(size_t)row * n + column] = __float2half(sum);
}
"""

_MATMUL_F16_FAST = tiled_product(
    name="matmul_f16_fast",
    parameters="const __half* __restrict__ a, const __half* __restrict__ b, __half* __restrict__ c",
    arguments="a, b, c",
    result="__float2half(sum[r][j])",
    half=True,
)

MATMUL_F16: Final = Problem(
    id="matmul_f16",
    version="4",
    tier=3,
    title="Matrix times matrix in float16",
    statement=(
        "c[i, j] = sum over l of a[i, l] * b[l, j], for row-major matrices a[m, k], b[k, n] and c[m, n] of float16. "
        "Products are added in float32 and rounded to float16 once, at the end: adding in float16 is wrong. "
        "m, n and k need not be multiples of anything; inputs are finite and no element of c "
        "overflows float16, though partial sums may. The order of summation is free."
    ),
    inputs=_HALF_IN,
    outputs=_HALF_OUT,
    sizes=("m", "n", "k"),
    example_sizes=({"m": 128, "n": 128, "k": 128}, {"m": 64, "n": 96, "k": 160}, {"m": 256, "n": 256, "k": 256}),
    hidden_sizes=hidden_sizes(m=129, n=129, k=257),
    serves=SizeRange(MOST_PRODUCT, (*_HALF_IN, *_HALF_OUT), LAST_FLAT),
    edge_sizes=PRODUCT_EDGES,
    distributions=(
        distribution("normal", "standard normal values", _HALF_IN, normal()),
        distribution(
            "large", "normal values times 1000 in a, 1/32 in b", _HALF_IN, normal(1e3), {"b": normal(1 / 32)}
        ),
        distribution("tiny", "normal values times 2^-6", _HALF_IN, normal(2.0**-6)),
        distribution(
            "cancellation",
            "terms in pairs that cancel but for a hundredth",
            _HALF_IN,
            normal(),
            {"a": cancellation(-1, 1e-2), "b": repeated(0)},
        ),
        distribution("signed_zeros", "+0, -0 and small values mixed", _HALF_IN, signed_zeros(), {"b": normal()}),
        distribution("constant_rows", "one value for each row", _HALF_IN, constant_rows()),
        *structured_distributions(_HALF_IN, 16.0),
    ),
    probes=(
        Probe(_LOST_PARTIALS, exact(), {"m": 128, "n": 128, "k": 128}),
        Probe(_LOST_PARTIALS, exact(), {"m": 61, "n": 67, "k": 513}),
    ),
    tolerance=Tolerance(
        EPSILON_F16 + summation(_CHAIN).relative,
        2.0**-24,
        f"Admits one rounding of the result to float16 (2^-11 of it) and any order of summation in float32 with "
        f"chains of up to {_CHAIN} additions; the scale is the 2-norm of the terms and of the element. "
        "The absolute part is float16's smallest step.",
    ),
    oracle=_matmul_f16_oracle,
    sampler=dot_products("a", "b"),
    work=lambda s: Work(_bytes(_HALF_IN, s), _bytes(_HALF_OUT, s), 2 * s["m"] * s["n"] * s["k"]),
    naive=Kernel("matmul_f16_naive", _MATMUL_F16_NAIVE, "One thread for each element of c, in blocks of 16 x 16."),
    fast=Kernel(
        "matmul_f16_fast",
        _MATMUL_F16_FAST,
        "8-byte loads of four values where aligned, float32 tiles in shared memory, 4 x 4 results in registers.",
    ),
    timing_sizes={"m": 4096, "n": 4096, "k": 2048},
    baseline="torch.matmul(a, b)",
    sketch=product_check("a", "b", "c", _CHAIN),
)

PROBLEMS: Final = (MATVEC, MATMUL, LINEAR_GELU, MATMUL_F16)
