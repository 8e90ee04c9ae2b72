"""Scans: prefix_sum."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from evaluator.problems import error_bounds
from evaluator.problems.arrays import (
    Array,
    Rng,
    Shape,
    doubles,
    elements_of,
    namespace,
    on_device_of,
    running_maximum,
)
from evaluator.problems.families.reduction import (
    FLAT_CHAIN,
    FLAT_SUM_EDGES,
    FLAT_SUMS,
    PIECE,
    double_pieces,
    summed_distributions,
    summed_mixture,
)
from evaluator.problems.generators import fine, hidden_sizes, one_term, probe, summation
from evaluator.problems.problem import (
    Arrays,
    Elements,
    Expected,
    Kernel,
    Oracle,
    Problem,
    Sizes,
    Tensor,
    Work,
)
from evaluator.problems.sampling import put_back
from evaluator.problems.structured import FEW_MATTER, few_matter

_X = Tensor("x", ("n",))


def _late_term(rng: Rng, shape: Shape) -> Array:
    """One element that needs all 24 bits, behind a third of the vector.

    All others are so small that they are lost next to it, and of so few bits that their own sums are exact.
    """
    places = rng.arange(shape[-1])
    share = 0.35 + 0.55 * rng.uniform(0.0, 1.0, (1,))
    quiet = rng.signs(shape) * rng.integers(1, 7, shape) * 2.0**-60
    return rng.xp.where(places == rng.xp.astype(share * shape[-1], rng.xp.int64), fine()(rng, shape), quiet)


_LATE_TERM: Final = probe(
    "late_term",
    "one element that outweighs all others, somewhere behind the first third, and needs all 24 bits",
    (_X,),
    _late_term,
    replace(one_term(), any_length=True),
    {},
)


def _sums(arrays: Arrays) -> Iterator[tuple[Array, Array]]:
    """The sums up to each element and those of the squares, a piece at a time."""
    total = squares = 0.0
    for x in double_pieces(arrays):
        xp = namespace(x)
        totals = xp.cumulative_sum(x)
        x *= x
        all_squares = xp.cumulative_sum(x)
        totals += total
        all_squares += squares
        yield totals, all_squares
        total, squares = totals[-1:], all_squares[-1:]


def _reach(places: Array, sizes: Sizes) -> Array:
    """The last element that may round y at each place: a chunk that has others before it ends within twice as many.

    The first chunk of a thread, warp or block has nothing before it, and takes its own sum away from just that sum,
    which is exact. All others lie behind at least as many elements as they have, whatever their length.
    """
    return namespace(places).clip(2 * places, None, sizes["n"] - 1)


def _expected(totals: Array, squares: Array, terms: Array) -> Expected:
    xp = namespace(totals, squares)
    terms = xp.astype(terms, xp.float64)
    longer = xp.sqrt(xp.clip(terms / FLAT_CHAIN, 1.0, None))  # as `longer_sums`, for each element
    return Expected(totals, xp.sqrt(squares + totals**2), error_bounds.random_walk(terms, 4.0), longer)


def _with_subtraction(expected: Expected, largest: Array, squares: Array) -> Expected:
    """`largest`, `squares`: as far as a chunk reaches, the largest magnitude of a sum, and the sum of the squares."""
    sums = namespace(largest).sqrt(squares + largest**2)
    return replace(expected, beyond=error_bounds.of_subtraction(sums, expected.scale, expected.relative))


def _oracle(arrays: Arrays, sizes: Sizes) -> dict[str, Expected]:
    xp = namespace(arrays["x"])
    totals, squares = (xp.concat(parts) for parts in zip(*_sums(arrays), strict=True))
    terms = xp.cumulative_sum(xp.ones_like(totals))
    expected = _expected(totals, squares, terms)
    if sizes["n"] <= PIECE:  # of more, all terms are taken to count
        relative = error_bounds.of_prefixes(doubles(arrays, "x")[1], expected.scale, 4.0)
        expected = replace(expected, relative=relative)
    reach = _reach(xp.astype(terms, xp.int64) - 1, sizes)
    return {"y": _with_subtraction(expected, running_maximum(xp.abs(totals))[reach], squares[reach])}


def _sample(
    oracle: Oracle, inputs: Arrays, sizes: Sizes, elements: Elements, scalars: Mapping[str, Any]
) -> dict[str, Expected]:
    """The sums up to these elements alone are kept."""
    wanted = elements["y"]
    if sizes["n"] <= PIECE:
        return {"y": oracle(inputs, sizes)["y"].at(wanted)}
    order = np.argsort(wanted, kind="stable")
    ordered = wanted[order]
    reach = _reach(ordered, sizes)
    first, largest, kept, reached = 0, 0.0, [], []
    for totals, squares in _sums(inputs):
        here = (first, first + totals.shape[0])
        places = ordered[slice(*np.searchsorted(ordered, here))]
        at = places - first
        kept.append(_expected(elements_of(totals, at), elements_of(squares, at), on_device_of(totals, places + 1)))
        at = reach[slice(*np.searchsorted(reach, here))] - first
        xp = namespace(totals)
        sums = running_maximum(xp.abs(totals))
        reached.append((xp.clip(elements_of(sums, at), largest, None), elements_of(squares, at)))
        first, largest = here[1], xp.clip(sums[-1], largest, None)
    back = np.argsort(order)
    sums, squares = (elements_of(namespace(*parts).concat(parts), back) for parts in zip(*reached, strict=True))
    return {"y": _with_subtraction(put_back(kept, order), sums, squares)}


_NAIVE = """\
// assay: launch scan_kernel grid=(1) block=(1) args=(x, y, n)

__global__ void scan_kernel(const float* x, float* y, int n)
{
    float sum = 0.0f;
    for (int i = 0; i < n; i++) {
        sum += x[i];
        y[i] = sum;
    }
}
"""

_FAST = """\
// assay: temp before float32 (ceil_div(n, 2048))
// assay: launch chunk_sums grid=(ceil_div(n, 2048)) block=(256) args=(x, before, n)
// assay: launch exclusive_scan grid=(1) block=(256) args=(before, ceil_div(n, 2048))
// assay: launch chunk_scans grid=(ceil_div(n, 2048)) block=(256) args=(x, before, y, n)

// The sum of `value` over the threads before this one in the block; `total` becomes the sum over the whole block.
__device__ __forceinline__ float sum_before(float value, float* total)
{
    __shared__ float warp_totals[8];
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    float up_to = value;
    for (int offset = 1; offset < 32; offset *= 2) {
        const float below = __shfl_up_sync(0xffffffffu, up_to, offset);
        if (lane >= offset) {
            up_to += below;
        }
    }
    const float left = __shfl_up_sync(0xffffffffu, up_to, 1);
    __syncthreads();  // the totals of the call before have been read
    if (lane == 31) {
        warp_totals[warp] = up_to;
    }
    __syncthreads();
    float before_warp = 0.0f;
    float sum = 0.0f;
    for (int w = 0; w < 8; w++) {
        if (w == warp) {
            before_warp = sum;
        }
        sum += warp_totals[w];
    }
    *total = sum;
    return before_warp + (lane > 0 ? left : 0.0f);
}

// The eight elements of x that this thread owns, zero beyond the end.
__device__ __forceinline__ void load_eight(const float* __restrict__ x, int n, int first, float* values)
{
    if (n - first >= 8) {
        const float4 low = *reinterpret_cast<const float4*>(x + first);
        const float4 high = *reinterpret_cast<const float4*>(x + first + 4);
        values[0] = low.x;
        values[1] = low.y;
        values[2] = low.z;
        values[3] = low.w;
        values[4] = high.x;
        values[5] = high.y;
        values[6] = high.z;
        values[7] = high.w;
    } else {
        for (int k = 0; k < 8; k++) {
            values[k] = k < n - first ? x[first + k] : 0.0f;
        }
    }
}

__global__ void __launch_bounds__(256) chunk_sums(const float* __restrict__ x, float* __restrict__ sums, int n)
{
    float values[8];
    load_eight(x, n, blockIdx.x * 2048 + threadIdx.x * 8, values);
    const float low = (values[0] + values[1]) + (values[2] + values[3]);
    const float high = (values[4] + values[5]) + (values[6] + values[7]);
    float total;
    sum_before(low + high, &total);
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = total;
    }
}

// One block turns sums into what comes before each of them.
__global__ void __launch_bounds__(256) exclusive_scan(float* sums, int count)
{
    float carry = 0.0f;
    for (int first = 0; first < count; first += 256) {
        const int i = first + threadIdx.x;
        const float value = i < count ? sums[i] : 0.0f;
        float total;
        const float below = sum_before(value, &total);
        if (i < count) {
            sums[i] = carry + below;
        }
        carry += total;
    }
}

__global__ void __launch_bounds__(256)
chunk_scans(const float* __restrict__ x, const float* __restrict__ before, float* __restrict__ y, int n)
{
    const int first = blockIdx.x * 2048 + threadIdx.x * 8;
    float values[8];
    load_eight(x, n, first, values);
    for (int k = 1; k < 8; k++) {
        values[k] += values[k - 1];
    }
    float total;
    const float offset = before[blockIdx.x] + sum_before(values[7], &total);
    if (n - first >= 8) {
        *reinterpret_cast<float4*>(y + first) =
            make_float4(offset + values[0], offset + values[1], offset + values[2], offset + values[3]);
        *reinterpret_cast<float4*>(y + first + 4) =
            make_float4(offset + values[4], offset + values[5], offset + values[6], offset + values[7]);
    } else {
        for (int k = 0; k < n - first; k++) {
            y[first + k] = offset + values[k];
        }
    }
}
"""

PREFIX_SUM: Final = Problem(
    id="prefix_sum",
    version="5",
    tier=1,
    title="Prefix sum (inclusive)",
    statement=(
        "y[i] is the sum of x[0] to x[i], x[i] included, for 0 <= i < n, in float32, added in any order. Each y[i] "
        "is judged against the 2-norm of its own terms x[0] to x[i], and 12 roundings of sums up to x[2 * i]: so a "
        "thread, warp or block may take its own sum away from one that includes it, but y[i] must not be the "
        "difference of longer sums. n may be any size in its range."
    ),
    inputs=(_X,),
    outputs=(Tensor("y", ("n",)),),
    sizes=("n",),
    example_sizes=({"n": 1 << 18}, {"n": 1000}, {"n": 100_003}),
    hidden_sizes=hidden_sizes(n=1 << 17),
    serves=FLAT_SUMS,
    edge_sizes=FLAT_SUM_EDGES,
    distributions=summed_distributions(_X),
    mixture=summed_mixture(_X),
    edge_probes=(_LATE_TERM,),
    probes=(probe("few_matter_long", FEW_MATTER, (_X,), few_matter(fine()), summation(FLAT_CHAIN), {"n": 4099}),),
    tolerance=summation(FLAT_CHAIN),
    oracle=_oracle,
    sampler=_sample,
    work=lambda sizes: Work(4 * sizes["n"], 4 * sizes["n"], sizes["n"] - 1),
    naive=Kernel("scan_kernel", _NAIVE, "one thread adds from the first element to the last"),
    fast=Kernel(
        "chunk_scans",
        _FAST,
        "chunks of 2,048: their sums, a scan of the sums, then each chunk's scan in registers and warp shuffles",
    ),
    timing_sizes={"n": 1 << 22},
    baseline="torch.cumsum(x, dim=0)",
)
