"""Softmax over rows, and the tolerances that it shares with the other functions of whole rows."""

from typing import Final

from evaluator.problems import error_bounds
from evaluator.problems.arrays import Array, Rng, Shape, doubles, namespace
from evaluator.problems.edges import LAST_FLAT, MOST_ROWS, ROW_EDGES
from evaluator.problems.error_bounds import EPSILON, one_sign, random_walk
from evaluator.problems.generators import (
    SMALLEST_NORMAL,
    Maker,
    constant_rows,
    distribution,
    fine,
    hidden_sizes,
    normal,
    probe,
    signed_zeros,
    tiny,
    uniform,
)
from evaluator.problems.mixtures import SPARSE, mixture, sparse
from evaluator.problems.problem import (
    Arrays,
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
from evaluator.problems.sampling import row_wise
from evaluator.problems.structured import few_high, structured_distributions

CHAIN: Final = 4096
"""Longest chain of additions that the tolerances admit as they are."""

ROW_SIZES: Final[tuple[Sizes, ...]] = (
    {"rows": 256, "cols": 1024},
    {"rows": 1000, "cols": 63},
    {"rows": 7, "cols": 5000},
)
"""Example sizes for functions of whole rows."""
TIMING_ROWS: Final[Sizes] = {"rows": 8192, "cols": 2048}

_X = Tensor("x", ("rows", "cols"))
ROW_RANGE: Final = SizeRange(MOST_ROWS, (_X,), LAST_FLAT)
_Y = Tensor("y", ("rows", "cols"))


def longer_rows(terms: int) -> float:
    """What the scale is multiplied by where a sum of one sign has more terms than `CHAIN`.

    So that adding them in order is right at every length, and short rows are judged as strictly as without it.
    """
    return max(1.0, terms / CHAIN)


def positive_sums(chain: int, extra: float, why: str) -> Tolerance:
    """Sums of terms of one sign: partial sums grow with the chain, and so does the error."""
    return Tolerance(
        float(one_sign(chain, extra)),
        SMALLEST_NORMAL,
        f"Admits sums of terms of one sign in float32, in any order with chains of up to {chain} additions, where "
        f"roundings average half of their most: ({chain} / 2 + {extra:g}) * 2^-24 of the scale; where there are "
        f"more terms, in proportion to their number. {why} "
        "The absolute part admits denormals that are flushed to zero.",
    )


def few_terms(cols: int, extra: float, why: str) -> Tolerance:
    """For probes: rows so short that every order of summation is good to a few roundings."""
    return Tolerance(
        (cols + extra) * EPSILON,
        SMALLEST_NORMAL,
        f"Rows of {cols} leave at most {cols} roundings to summation and {extra:g} to the rest ({why}), each of "
        "2^-24 of the scale; float16 and bfloat16 inside are off by 2^-13 or more.",
    )


def random_rows(cols: int, extra: float, why: str) -> Tolerance:
    """For probes: long rows of independent values, where roundings of a sum go both ways though its terms do not."""
    return Tolerance(
        float(random_walk(cols, extra)),
        SMALLEST_NORMAL,
        f"The values are random, so roundings do not add up in one direction: (4 * sqrt({cols}) + {extra:g}) * 2^-24 "
        f"of the scale, of which {extra:g} beside summation ({why}).",
    )


def _around(values: Maker, spread: float) -> Maker:
    """Each row about a value of its own, of at most `spread` in magnitude."""

    def make(rng: Rng, shape: Shape) -> Array:
        return values(rng, shape) + rng.uniform(-spread, spread, (*shape[:-1], 1))

    return make


def _staircase(rng: Rng, shape: Shape) -> Array:
    """Rising rows in the upper half, falling ones in the lower: the running maximum changes always or never."""
    values = rng.xp.sort(30.0 * rng.normal(shape), axis=-1)
    half = shape[0] // 2
    return rng.xp.concat([values[:half], rng.xp.flip(values[half:], axis=-1)])


def _far_below(rng: Rng, shape: Shape) -> Array:
    """Rows of one value below what a maximum may begin with. One, since exp2(x * c - m * c) is off there, and ties
    cancel that.
    """
    return rng.xp.broadcast_to(-(10.0 ** rng.uniform(3.0, 8.0, (*shape[:-1], 1))), shape)


def _plateaus(rng: Rng, shape: Shape) -> Array:
    """Rows whose first 1 to 64 elements are near 0 and whose others lie around one value, at most 87.5.

    exp of any single one is finite, and so few above the first that a maximum which is not moved for them lets the
    sum overflow.
    """
    first = rng.xp.broadcast_to(rng.arange(shape[-1]), shape) < 2 ** rng.integers(0, 6, (*shape[:-1], 1))
    return rng.xp.where(first, 0.0, rng.uniform(0.0, 87.0, (*shape[:-1], 1))) + rng.uniform(-0.5, 0.5, shape)


def softened(x: Array) -> Array:
    """exp(x) over its sum along the last axis."""
    xp = namespace(x)
    powers = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return powers / xp.sum(powers, axis=-1, keepdims=True)


_POWER: Final = 32
"""Roundings of exp, also as __expf, of the quotient and of the products that join partial sums."""

_OF_A_LOGARITHM: Final = 2
"""Roundings of the exponent and of the maximum where the logarithm of the sum is added to the maximum: that sum, and
what is taken from it. Each is half a unit in the last place."""


def _softmax_oracle(inputs: Arrays, sizes: Sizes) -> dict[str, Expected]:
    """The scale is the element itself: nothing cancels in it, so its relative error counts.

    An exponent and the maximum enter exp with as many roundings as they are large, times log2(e) where it is done in
    powers of two; 4 of each admits that twice over, and __expf. The tolerance knows of rows near 0 alone: far from it
    exp(x - (high + log(total))) loses what rounding that sum to float32 costs, and `beyond` admits it.
    """
    xp, x = doubles(inputs, "x")
    high = xp.max(x, axis=-1, keepdims=True)
    powers = xp.exp(x - high)
    total = xp.sum(powers, axis=-1, keepdims=True)
    y = powers / total
    count, lost = error_bounds.counting(powers)
    rest = xp.sum(xp.where(lost, powers, 0.0), axis=-1, keepdims=True) / total
    together = xp.abs(x) + xp.abs(high)
    relative = error_bounds.one_sign(count, _POWER)[..., None] + rest + 4.0 * EPSILON * together
    rounded = xp.expm1(_OF_A_LOGARITHM * EPSILON * together) - _TOLERANCE.relative
    beyond = y * xp.clip(rounded, 0.0, None)
    return {"y": Expected(y, y, relative, longer_rows(sizes["cols"]), beyond)}


_SOFTMAX_NAIVE = r"""
// assay: launch softmax_naive grid=(ceil_div(rows, 256)) block=(256) args=(x, y, rows, cols)
__global__ void softmax_naive(const float* x, float* y, int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    float* out = y + (size_t)row * cols;
    float highest = in[0];
    for (int i = 1; i < cols; i++) highest = fmaxf(highest, in[i]);
    float sum = 0.0f;
    for (int i = 0; i < cols; i++) sum += expf(in[i] - highest);
    for (int i = 0; i < cols; i++) out[i] = expf(in[i] - highest) / sum;
}
"""

_SOFTMAX_FAST = r"""
// assay: launch softmax_fast grid=(rows) block=(256) args=(x, y, cols)
#include <cfloat>

// Takes the partial sum `other_sum`, relative to exp(other_high), into `sum`, relative to exp(high).
__device__ __forceinline__ void merge(float& high, float& sum, float other_high, float other_sum)
{
    float top = fmaxf(high, other_high);
    sum = sum * expf(high - top) + other_sum * expf(other_high - top);
    high = top;
}

__device__ __forceinline__ void take(float& high, float& sum, float value)
{
    if (value <= high) {
        sum += expf(value - high);
    } else {
        sum = sum * expf(high - value) + 1.0f;
        high = value;
    }
}

// One block for each row: highest value and sum in one pass (online softmax), then one pass that writes.
__global__ void __launch_bounds__(256) softmax_fast(const float* __restrict__ x, float* __restrict__ y, int cols)
{
    __shared__ float highs[8], sums[8];
    const float* in = x + (size_t)blockIdx.x * cols;
    float* out = y + (size_t)blockIdx.x * cols;
    bool wide = cols % 4 == 0;  // then each row begins at a multiple of 16 bytes
    float high = -FLT_MAX, sum = 0.0f;
    if (wide) {
        const float4* in4 = reinterpret_cast<const float4*>(in);
        for (int i = threadIdx.x; i < cols / 4; i += 256) {
            float4 v = in4[i];
            take(high, sum, v.x);
            take(high, sum, v.y);
            take(high, sum, v.z);
            take(high, sum, v.w);
        }
    } else {
        for (int i = threadIdx.x; i < cols; i += 256) take(high, sum, in[i]);
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        float other_high = __shfl_xor_sync(0xffffffffu, high, offset);
        float other_sum = __shfl_xor_sync(0xffffffffu, sum, offset);
        merge(high, sum, other_high, other_sum);
    }
    if (threadIdx.x % 32 == 0) {
        highs[threadIdx.x / 32] = high;
        sums[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    high = highs[0];
    sum = sums[0];
    for (int warp = 1; warp < 8; warp++) merge(high, sum, highs[warp], sums[warp]);
    float share = 1.0f / sum;
    if (wide) {
        const float4* in4 = reinterpret_cast<const float4*>(in);
        float4* out4 = reinterpret_cast<float4*>(out);
        for (int i = threadIdx.x; i < cols / 4; i += 256) {
            float4 v = in4[i];
            out4[i] = make_float4(expf(v.x - high) * share, expf(v.y - high) * share, expf(v.z - high) * share,
                                  expf(v.w - high) * share);
        }
    } else {
        for (int i = threadIdx.x; i < cols; i += 256) out[i] = expf(in[i] - high) * share;
    }
}
"""

_FEW_HIGH: Final = distribution(
    "few_high", "in each row 1, 2 or more elements far above all others", (_X,), few_high()
)
_DISTRIBUTIONS: Final = (
    distribution("normal", "standard normal values", (_X,), normal()),
    distribution("large", "normal values times 200: one element takes all", (_X,), normal(200.0)),
    distribution("far_up", "rows near +1000, where exp overflows", (_X,), normal(3.0, 1000.0)),
    distribution("far_down", "rows near -1000, where exp vanishes", (_X,), normal(3.0, -1000.0)),
    distribution("far_below", "rows of one value each, from -1e3 to -1e8", (_X,), _far_below),
    distribution("tiny", "normal values times 1e-15: all elements alike", (_X,), tiny()),
    distribution("wide", "rows that span 60 about a value of their own", (_X,), _around(uniform(-30, 30), 500.0)),
    distribution("staircase", "rising and falling rows", (_X,), _staircase),
    distribution("signed_zeros", "+0, -0 and small values mixed", (_X,), signed_zeros()),
    _FEW_HIGH,
    distribution("constant_rows", "one value for each row", (_X,), constant_rows()),
    *structured_distributions((_X,), 64.0),
    distribution("plateaus", "rows that rise once, by as much as exp can hold", (_X,), _plateaus, role="partial"),
)
_TOLERANCE: Final = positive_sums(
    CHAIN,
    1024,
    "Exponents down to -104 enter exp with as many roundings; unshifted ones, times log2(e), with more.",
)

SOFTMAX: Final = Problem(
    id="softmax",
    version="4",
    tier=2,
    title="Softmax over rows",
    statement=(
        "y[i, j] = exp(x[i, j]) / sum over l of exp(x[i, l]), for row-major float32 x and y of rows rows and cols "
        "columns, not necessarily multiples of anything. Values of x can be so large or so small "
        "that exp overflows or vanishes: subtract the row's maximum first. Each element is judged by its relative "
        "error; results below float32's normal range may be flushed to zero."
    ),
    inputs=(_X,),
    outputs=(_Y,),
    sizes=("rows", "cols"),
    example_sizes=ROW_SIZES,
    hidden_sizes=hidden_sizes(rows=513, cols=1025),
    serves=ROW_RANGE,
    edge_sizes=ROW_EDGES,
    distributions=_DISTRIBUTIONS,
    mixture=mixture((*_DISTRIBUTIONS, distribution("sparse", SPARSE, (_X,), sparse)), (_X,), "rows"),
    edge_probes=(Probe(_FEW_HIGH, _TOLERANCE, {}),),
    probes=(
        probe(
            "short_rows",
            "rows of four values that need all 24 bits",
            (_X,),
            fine(),
            few_terms(4, 28, "differences of up to 4 enter exp with as many roundings"),
            {"rows": 999, "cols": 4},
        ),
        probe(
            "long_rows",
            "standard normal values, whose powers round both ways in their sums",
            (_X,),
            normal(),
            random_rows(1021, _POWER, "exponents enter exp with as many roundings as they are large"),
            {"rows": 64, "cols": 1021},
        ),
    ),
    tolerance=_TOLERANCE,
    oracle=_softmax_oracle,
    sampler=row_wise("x", length="cols", width="cols"),
    work=lambda s: Work(4 * s["rows"] * s["cols"], 4 * s["rows"] * s["cols"], 4 * s["rows"] * s["cols"]),
    naive=Kernel("softmax_naive", _SOFTMAX_NAIVE, "One thread for each row, three passes, uncoalesced."),
    fast=Kernel("softmax_fast", _SOFTMAX_FAST, "One block for each row, online softmax, shuffles, 16-byte loads."),
    timing_sizes=TIMING_ROWS,
    baseline="torch.softmax(x, dim=-1)",
)
