"""Rows brought to a common scale: softmax, layer_norm, rms_norm."""

from typing import Final

import numpy as np

from evaluator.problems import error_bounds
from evaluator.problems.arrays import Array, Rng, Shape, doubles, namespace
from evaluator.problems.edges import ROW_EDGES
from evaluator.problems.error_bounds import EPSILON
from evaluator.problems.families.softmax import (
    CHAIN,
    ROW_RANGE,
    ROW_SIZES,
    SOFTMAX,
    TIMING_ROWS,
    few_terms,
    longer_rows,
    positive_sums,
    random_rows,
)
from evaluator.problems.generators import (
    SMALLEST_NORMAL,
    cancellation,
    constant,
    constant_rows,
    distribution,
    fine,
    hidden_sizes,
    large,
    mixed_scales,
    normal,
    probe,
    signed_zeros,
    tiny,
)
from evaluator.problems.mixtures import SPARSE, mixture, sparse
from evaluator.problems.problem import (
    Arrays,
    Expected,
    Kernel,
    Probe,
    Problem,
    Scalar,
    Sizes,
    Tensor,
    Tolerance,
    Work,
)
from evaluator.problems.sampling import row_wise
from evaluator.problems.structured import FEW_MATTER, few_matter, structured_distributions

__all__ = ["LAYER_NORM", "PROBLEMS", "RMS_NORM", "SOFTMAX"]

_X = Tensor("x", ("rows", "cols"))
_WEIGHT = Tensor("weight", ("cols",))
_BIAS = Tensor("bias", ("cols",))
_OUT = (Tensor("y", ("rows", "cols")),)
_EPS: Final = Scalar("eps", 1e-5, others=(1e-3, 1e-6, 0.125))

_ROUNDINGS: Final = 24
"""Beside those of the sums: mean, deviations, their squares, the root or its inverse by rsqrtf, three products."""

_PER_POWER: Final = 2
"""Roundings of a root that is had by powers of two, as `powf` with --use_fast_math, for each power: lg2.approx is off
by 2^-22 of its result, of which half is taken and rounded (173 where 100 are admitted 200)."""

_PAIRS: Final = 8
"""Of a row, whose elements need all 24 bits."""


def _balanced(rng: Rng, shape: Shape) -> Array:
    """Rows whose second half is minus the first: multiples of 1/16 up to 1/2, and 8 in (1, 2) that need all 24 bits.

    So the mean is next to nothing, and sums of up to 2**16 squares of the others are exact.
    """
    xp, half = rng.xp, shape[-1] // 2
    values = rng.signs((*shape[:-1], half)) * 0.0625 * rng.integers(1, 8, (*shape[:-1], half))
    places = rng.integers(0, max(1, half - 1), (*shape[:-1], _PAIRS))
    among = xp.any(rng.arange(half)[:, None] == places[..., None, :], axis=-1)
    values = xp.where(among, fine()(rng, values.shape), values)
    return xp.concat([values, -values, rng.full((*shape[:-1], shape[-1] % 2), 0.0)], axis=-1)


def _far_pairs(rng: Rng, shape: Shape) -> Array:
    """Rows of pairs about a mean of hundreds of deviations, whose sums are exact: multiples of 1/4 below 2**22.

    Squares of so far a mean leave nothing of the variance in float32.
    """
    half = shape[-1] // 2
    apart = rng.signs((*shape[:-1], half)) * 0.25 * rng.integers(1, 2, (*shape[:-1], half))
    rest = rng.full((*shape[:-1], shape[-1] % 2), 0.0)
    return 2.0 ** min(9, 22 - shape[-1].bit_length()) + rng.xp.concat([apart, -apart, rest], axis=-1)


_BLOCK_SUM = r"""
// The sum over the block of 256 threads, in every thread; `parts` holds 8 floats and is free again afterwards.
__device__ __forceinline__ float block_sum(float value, float* parts)
{
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    float total = 0.0f;
    for (int warp = 0; warp < 8; warp++) total += parts[warp];
    __syncthreads();
    return total;
}
"""


def _of_powers(squared: Array) -> Array:
    """What a root of `squared` by powers of two is off by, as a share of it."""
    xp = namespace(squared)
    return _PER_POWER * EPSILON * xp.abs(xp.log2(squared))


# --- layer_norm -------------------------------------------------------------------------------------------------

_LAYER_IN = (_X, _WEIGHT, _BIAS)


def _layer_norm_oracle(inputs: Arrays, sizes: Sizes, eps: float = _EPS.value) -> dict[str, Expected]:
    """The terms of an element are x * r * weight, mean * r * weight and bias, where r is 1 / sqrt(variance + eps).

    The mean counts by the root mean square of the elements that make it: it may cancel.
    """
    xp, x, weight, bias = doubles(inputs, "x", "weight", "bias")
    mean = xp.mean(x, axis=-1, keepdims=True)
    variance = xp.mean((x - mean) ** 2, axis=-1, keepdims=True) + float(np.float32(eps))
    rate = 1.0 / xp.sqrt(variance)
    scale = xp.sqrt((x**2 + xp.mean(x**2, axis=-1, keepdims=True)) * rate**2 * weight**2 + bias**2)
    # Where few elements count, the others' deviations are the mean, all alike: their roundings do add up.
    relative = error_bounds.one_sign(x.shape[-1], _ROUNDINGS) + _of_powers(variance)
    y = (x - mean) * rate * weight + bias
    return {"y": Expected(y, scale, relative, longer_rows(sizes["cols"]))}


_LAYER_NORM_NAIVE = r"""
// assay: launch layer_norm_naive grid=(ceil_div(rows, 256)) block=(256) args=(x, weight, bias, y, eps, rows, cols)
__global__ void layer_norm_naive(const float* x, const float* weight, const float* bias, float* y, float eps,
                                 int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    float* out = y + (size_t)row * cols;
    float mean = 0.0f;
    for (int i = 0; i < cols; i++) mean += in[i];
    mean /= cols;
    float variance = 0.0f;
    for (int i = 0; i < cols; i++) variance += (in[i] - mean) * (in[i] - mean);
    variance /= cols;
    float rate = 1.0f / sqrtf(variance + eps);
    for (int i = 0; i < cols; i++) out[i] = (in[i] - mean) * rate * weight[i] + bias[i];
}
"""

_LAYER_NORM_FAST = (
    r"""
// assay: launch layer_norm_fast grid=(rows) block=(256) args=(x, weight, bias, y, eps, cols)
"""
    + _BLOCK_SUM
    + r"""
constexpr int HELD = 8;  // values of a row that a thread keeps in registers: rows of up to 2048 are read once

// One block for each row; mean first, then the variance from deviations, without a second trip to memory.
__global__ void __launch_bounds__(256) layer_norm_fast(
    const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
    float* __restrict__ y, float eps, int cols)
{
    __shared__ float parts[8];
    const float* in = x + (size_t)blockIdx.x * cols;
    float* out = y + (size_t)blockIdx.x * cols;
    float held[HELD];
    float sum = 0.0f;
    #pragma unroll
    for (int j = 0; j < HELD; j++) {
        int i = threadIdx.x + j * 256;
        held[j] = i < cols ? in[i] : 0.0f;
        sum += held[j];
    }
    for (int i = threadIdx.x + HELD * 256; i < cols; i += 256) sum += in[i];
    float mean = block_sum(sum, parts) / cols;

    float squares = 0.0f;
    #pragma unroll
    for (int j = 0; j < HELD; j++) {
        float deviation = held[j] - mean;
        if (threadIdx.x + j * 256 < cols) squares += deviation * deviation;
    }
    for (int i = threadIdx.x + HELD * 256; i < cols; i += 256) squares += (in[i] - mean) * (in[i] - mean);
    float rate = rsqrtf(block_sum(squares, parts) / cols + eps);

    #pragma unroll
    for (int j = 0; j < HELD; j++) {
        int i = threadIdx.x + j * 256;
        if (i < cols) out[i] = (held[j] - mean) * rate * weight[i] + bias[i];
    }
    for (int i = threadIdx.x + HELD * 256; i < cols; i += 256)
        out[i] = (in[i] - mean) * rate * weight[i] + bias[i];
}
"""
)

_LAYER_DISTRIBUTIONS: Final = (
    distribution("normal", "standard normal values", _LAYER_IN, normal()),
    distribution("far_mean", "mean 4000, standard deviation 1", _LAYER_IN, normal(), {"x": normal(1.0, 4000.0)}),
    distribution("large", "normal values times 1e15", _LAYER_IN, normal(), {"x": large()}),
    distribution("tiny", "normal values times 1e-4: eps rules", _LAYER_IN, normal(), {"x": tiny(1e-4)}),
    distribution("cancellation", "halves that cancel in the mean", _LAYER_IN, normal(), {"x": cancellation()}),
    distribution("mixed_scales", "magnitudes from 1e-6 to 1e6", _LAYER_IN, normal(), {"x": mixed_scales()}),
    distribution("signed_zeros", "+0, -0 and small values mixed", _LAYER_IN, normal(), {"x": signed_zeros()}),
    distribution("constant_rows", "one value for each row", _LAYER_IN, normal(), {"x": constant_rows()}),
    *structured_distributions(_LAYER_IN),
)
_BALANCED: Final = distribution(
    "balanced",
    "rows of pairs that cancel, whose sums float32 hardly rounds; weights need all 24 bits",
    _LAYER_IN,
    fine(),
    {"x": _balanced, "bias": constant(0.0)},
)
_BALANCED_TOLERANCE: Final = Tolerance(
    112 * EPSILON,
    SMALLEST_NORMAL,
    "Sums round a few times only, at any length, but Welford's in one thread at each step: of 112 roundings of 2^-24 "
    "it takes up to 83 in the longest rows. 16 bits inside are off by 160.",
    any_length=True,
)
_FAR_PAIRS: Final = distribution(
    "far_pairs", "a mean of hundreds of deviations, whose sums are exact", _LAYER_IN, normal(), {"x": _far_pairs}
)
_FAR_TOLERANCE: Final = Tolerance(
    256 * EPSILON,
    SMALLEST_NORMAL,
    "Sums are exact; 256 roundings of 2^-24 leave room for Welford's running mean over a long row.",
    any_length=True,
)

LAYER_NORM: Final = Problem(
    id="layer_norm",
    version="6",
    tier=2,
    title="Layer normalisation",
    statement=(
        "y[i, j] = (x[i, j] - mean[i]) / sqrt(variance[i] + eps) * weight[j] + bias[j], with the mean and the "
        "(biased) variance of row i, for row-major float32 x and y of rows rows and cols columns. "
        "A row can have a mean of thousands of standard deviations, where E[x^2] - E[x]^2 in float32 is lost: take "
        "the variance from deviations from the mean (two passes, or Welford). "
        "A constant row gives the bias. eps is passed as a kernel parameter and differs from trial to trial."
    ),
    inputs=_LAYER_IN,
    outputs=_OUT,
    scalars=(_EPS,),
    sizes=("rows", "cols"),
    example_sizes=ROW_SIZES,
    hidden_sizes=hidden_sizes(rows=513, cols=1025),
    serves=ROW_RANGE,
    edge_sizes=ROW_EDGES,
    distributions=_LAYER_DISTRIBUTIONS,
    mixture=mixture(
        (*_LAYER_DISTRIBUTIONS, distribution("sparse", SPARSE, _LAYER_IN, normal(), {"x": sparse})), _LAYER_IN, "rows"
    ),
    edge_probes=(Probe(_BALANCED, _BALANCED_TOLERANCE, {}), Probe(_FAR_PAIRS, _FAR_TOLERANCE, {})),
    probes=(
        probe(
            "short_rows",
            "rows of four, some with a variance far below the mean's square; x and weight need all 24 bits",
            _LAYER_IN,
            fine(),
            few_terms(4, 12, "mean, deviation, root, products"),
            {"rows": 4999, "cols": 4},
            {"bias": constant(0.0)},
        ),
        probe(
            "long_rows",
            "standard normal values, whose sums round both ways",
            _LAYER_IN,
            normal(),
            random_rows(1021, _ROUNDINGS, "mean, deviation, root, products"),
            {"rows": 64, "cols": 1021},
        ),
        probe(
            "fine_bias",
            "constant rows, so that bias, which needs all 24 bits, is the answer",
            _LAYER_IN,
            fine(),
            few_terms(4, 12, "mean, deviation, root, products"),
            {"rows": 64, "cols": 256},
            {"x": constant(0.0)},
        ),
    ),
    tolerance=positive_sums(
        CHAIN,
        64,
        "The scale is the 2-norm of x * r * weight, rms * r * weight and bias, r = 1 / sqrt(variance + eps), which "
        "may be taken by powers of two.",
    ),
    oracle=_layer_norm_oracle,
    sampler=row_wise("x", length="cols", width="cols"),
    work=lambda s: Work(4 * (s["rows"] + 2) * s["cols"], 4 * s["rows"] * s["cols"], 7 * s["rows"] * s["cols"]),
    naive=Kernel("layer_norm_naive", _LAYER_NORM_NAIVE, "One thread for each row, three passes, uncoalesced."),
    fast=Kernel(
        "layer_norm_fast",
        _LAYER_NORM_FAST,
        "One block for each row, which stays in registers from the mean to the store; warp shuffles.",
    ),
    timing_sizes=TIMING_ROWS,
    baseline="F.layer_norm(x, (cols,), weight, bias, eps)",
)

# --- rms_norm ---------------------------------------------------------------------------------------------------

_RMS_IN = (_X, _WEIGHT)


def _rms_norm_oracle(inputs: Arrays, sizes: Sizes, eps: float = _EPS.value) -> dict[str, Expected]:
    """The scale is the element itself: nothing cancels in it, so its relative error counts."""
    xp, x, weight = doubles(inputs, "x", "weight")
    squares = x**2
    mean = xp.mean(squares, axis=-1, keepdims=True) + float(np.float32(eps))
    y = x / xp.sqrt(mean) * weight
    count, lost = error_bounds.counting(squares)
    total = xp.sum(squares, axis=-1)
    rest = xp.sum(xp.where(lost, squares, 0.0), axis=-1) / xp.where(total > 0, total, 1.0)
    relative = (error_bounds.one_sign(count, _ROUNDINGS) + rest)[..., None] + _of_powers(mean)
    return {"y": Expected(y, xp.abs(y), relative, longer_rows(sizes["cols"]))}


_RMS_NORM_NAIVE = r"""
// assay: launch rms_norm_naive grid=(ceil_div(rows, 256)) block=(256) args=(x, weight, y, eps, rows, cols)
__global__ void rms_norm_naive(const float* x, const float* weight, float* y, float eps, int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    float* out = y + (size_t)row * cols;
    float sum = 0.0f;
    for (int i = 0; i < cols; i++) sum += in[i] * in[i];
    float rate = 1.0f / sqrtf(sum / cols + eps);
    for (int i = 0; i < cols; i++) out[i] = in[i] * rate * weight[i];
}
"""

_RMS_NORM_FAST = (
    r"""
// assay: launch rms_norm_fast grid=(rows) block=(256) args=(x, weight, y, eps, cols)
"""
    + _BLOCK_SUM
    + r"""
constexpr int HELD = 8;  // values of a row that a thread keeps in registers: rows of up to 2048 are read once

__global__ void __launch_bounds__(256) rms_norm_fast(
    const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, float eps, int cols)
{
    __shared__ float parts[8];
    const float* in = x + (size_t)blockIdx.x * cols;
    float* out = y + (size_t)blockIdx.x * cols;
    float held[HELD];
    float sum = 0.0f;
    #pragma unroll
    for (int j = 0; j < HELD; j++) {
        int i = threadIdx.x + j * 256;
        held[j] = i < cols ? in[i] : 0.0f;
        sum += held[j] * held[j];
    }
    for (int i = threadIdx.x + HELD * 256; i < cols; i += 256) sum += in[i] * in[i];
    float rate = rsqrtf(block_sum(sum, parts) / cols + eps);
    #pragma unroll
    for (int j = 0; j < HELD; j++) {
        int i = threadIdx.x + j * 256;
        if (i < cols) out[i] = held[j] * rate * weight[i];
    }
    for (int i = threadIdx.x + HELD * 256; i < cols; i += 256) out[i] = in[i] * rate * weight[i];
}
"""
)

_FEW_MATTER: Final = distribution("few_matter", FEW_MATTER, _RMS_IN, fine(), {"x": few_matter(fine())})
_RMS_DISTRIBUTIONS: Final = (
    distribution("normal", "standard normal values", _RMS_IN, normal()),
    distribution("large", "normal values times 1e15", _RMS_IN, normal(), {"x": large()}),
    distribution("tiny", "normal values times 1e-4: eps rules", _RMS_IN, normal(), {"x": tiny(1e-4)}),
    distribution("mixed_scales", "magnitudes from 1e-6 to 1e6", _RMS_IN, normal(), {"x": mixed_scales()}),
    _FEW_MATTER,
    distribution("signed_zeros", "+0, -0 and small values mixed", _RMS_IN, normal(), {"x": signed_zeros()}),
    distribution("constant_rows", "one value for each row", _RMS_IN, normal(), {"x": constant_rows()}),
    *structured_distributions(_RMS_IN),
)
_RMS_TOLERANCE: Final = positive_sums(
    CHAIN, 64, "The scale is the element itself; the root may be taken by powers of two."
)

RMS_NORM: Final = Problem(
    id="rms_norm",
    version="5",
    tier=2,
    title="Root-mean-square normalisation",
    statement=(
        "y[i, j] = x[i, j] / sqrt(mean over l of x[i, l]^2 + eps) * weight[j], for row-major float32 x and y of rows "
        "rows and cols columns, not necessarily multiples of anything. Squares of x do not "
        "overflow, nor do their sums. Each element is judged by its relative error. eps is passed "
        "as a kernel parameter and differs from trial to trial."
    ),
    inputs=_RMS_IN,
    outputs=_OUT,
    scalars=(_EPS,),
    sizes=("rows", "cols"),
    example_sizes=ROW_SIZES,
    hidden_sizes=hidden_sizes(rows=513, cols=1025),
    serves=ROW_RANGE,
    edge_sizes=ROW_EDGES,
    distributions=_RMS_DISTRIBUTIONS,
    mixture=mixture(
        (*_RMS_DISTRIBUTIONS, distribution("sparse", SPARSE, _RMS_IN, normal(), {"x": sparse})), _RMS_IN, "rows"
    ),
    edge_probes=(Probe(_FEW_MATTER, _RMS_TOLERANCE, {}),),
    probes=(
        probe(
            "short_rows",
            "rows of four; x and weight need all 24 bits",
            _RMS_IN,
            fine(),
            few_terms(4, 12, "squares, root, products"),
            {"rows": 999, "cols": 4},
        ),
        probe(
            "long_rows",
            "standard normal values, whose squares round both ways in their sums",
            _RMS_IN,
            normal(),
            random_rows(1021, _ROUNDINGS, "squares, root, products"),
            {"rows": 64, "cols": 1021},
        ),
    ),
    tolerance=_RMS_TOLERANCE,
    oracle=_rms_norm_oracle,
    sampler=row_wise("x", length="cols", width="cols"),
    work=lambda s: Work(4 * (s["rows"] + 1) * s["cols"], 4 * s["rows"] * s["cols"], 4 * s["rows"] * s["cols"]),
    naive=Kernel("rms_norm_naive", _RMS_NORM_NAIVE, "One thread for each row, two passes, uncoalesced."),
    fast=Kernel("rms_norm_fast", _RMS_NORM_FAST, "One block for each row, which stays in registers; warp shuffles."),
    timing_sizes=TIMING_ROWS,
    baseline="F.rms_norm(x, (cols,), weight, eps)",
)

PROBLEMS: Final = (SOFTMAX, LAYER_NORM, RMS_NORM)
