"""Reductions: reduce_sum, row_sum and histogram."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from common.wire import DType
from evaluator.problems import error_bounds
from evaluator.problems.arrays import Array, Rng, Shape, counts, doubles, namespace
from evaluator.problems.edges import LAST_FLAT, MOST_ROWS, ROW_EDGES, above, edge_sizes, last
from evaluator.problems.generators import (
    Maker,
    distribution,
    exact,
    fine,
    hidden_sizes,
    longer_sums,
    mixed_scales,
    normal,
    one_term,
    probe,
    summation,
    uniform_int,
    usual_distributions,
)
from evaluator.problems.mixtures import SPARSE, STRETCH, mixture, sparse
from evaluator.problems.problem import (
    Arrays,
    Distribution,
    Expected,
    Kernel,
    Problem,
    SizeRange,
    Sizes,
    Tensor,
    Work,
)
from evaluator.problems.sampling import row_wise
from evaluator.problems.structured import FEW_MATTER, dominated, few_matter, structured_distributions

_X = Tensor("x", ("n",))
_MATRIX = Tensor("x", ("rows", "cols"))
ONE_TERM_REASON: Final = "one term that outweighs all others, and needs all 24 bits"


def summed_distributions(tensor: Tensor) -> tuple[Distribution, ...]:
    """The usual distributions, and values of very different magnitudes."""
    few = distribution("few_matter", FEW_MATTER, (tensor,), few_matter(fine()))
    spread = distribution("mixed_scales", "magnitudes from 1e-6 to 1e6", (tensor,), mixed_scales())
    return (*usual_distributions((tensor,)), few, spread, *structured_distributions((tensor,)))


def summed_mixture(tensor: Tensor) -> Distribution:
    """Stretches of a vector whose one sum feels all of them: of a kind, and none so large that others are lost."""
    one = (tensor,)
    structured = tuple(d for d in structured_distributions(one, 16.0) if d.name in _FELT_TOGETHER)
    normal_and_sparse = distribution("normal", "", one, normal()), distribution("sparse", SPARSE, one, sparse)
    return mixture((*normal_and_sparse, *structured), one, "n", STRETCH)


_FELT_TOGETHER: Final = frozenset({"several_scales", "clusters", "signs_by_place", "zero_parts", "equal_parts"})


# reduce_sum ---------------------------------------------------------------------------------------------------------


FLAT_CHAIN: Final = 1 << 20
"""Longest chain of additions that the tolerances of sums of vectors admit as they are."""
FLAT_SUMS: Final = SizeRange({"n": 9 << 20})
"""More than twice the timed size, and than 2^23."""
FLAT_SUM_EDGES: Final = edge_sizes(
    {"n": above(1 << 18)}, {"n": above(1 << 20, 1 << 21)}, {"n": above(1 << 22)}, {"n": last(9 << 20)}
)
"""1,024 partial results of blocks of 256, 1,024 and 2,048 elements, the timed size, and 2^23."""
PIECE: Final = 1 << 20
"""Elements in float64 at a time."""


def double_pieces(arrays: Arrays) -> Iterator[Array]:
    """The vector x in float64, a piece at a time."""
    for first in range(0, arrays["x"].shape[0], PIECE):
        yield doubles({"x": arrays["x"][first : first + PIECE]}, "x")[1]


def _reduce_sum_oracle(arrays: Arrays, sizes: Sizes) -> dict[str, Expected]:
    xp = namespace(arrays["x"])
    parts = [(xp.sum(x, keepdims=True), xp.sum(x * x, keepdims=True)) for x in double_pieces(arrays)]
    total, squares = (xp.sum(xp.concat(sums), keepdims=True) for sums in zip(*parts, strict=True))
    scale = xp.sqrt(squares + total**2)
    if len(parts) == 1:
        relative = error_bounds.of_sums(doubles(arrays, "x")[1][None], scale, 4.0)
    else:  # all terms are taken to count
        relative = error_bounds.random_walk(sizes["n"], 4.0)
    return {"total": Expected(total, scale, relative, longer_sums(sizes["n"], FLAT_CHAIN))}


_REDUCE_SUM_NAIVE = """\
// assay: fill total value=0
// assay: launch sum_kernel grid=(ceil_div(n, 256)) block=(256) args=(x, total, n)

__global__ void sum_kernel(const float* x, float* total, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(total, x[i]);
    }
}
"""

# Both stages are the same kernel; the number of partial sums depends on n alone, so the result does not vary.
_REDUCE_SUM_FAST = """\
// assay: temp partial float32 (min(ceil_div(n, 4096), 1024))
// assay: launch block_sums grid=(min(ceil_div(n, 4096), 1024)) block=(256) args=(x, partial, n)
// assay: launch block_sums grid=(1) block=(256) args=(partial, total, min(ceil_div(n, 4096), 1024))

__global__ void __launch_bounds__(256)
block_sums(const float* __restrict__ x, float* __restrict__ sums, int n)
{
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    const int threads = gridDim.x * blockDim.x;
    const int quads = n / 4;
    float sum = 0.0f;
    for (int q = thread; q < quads; q += threads) {
        const float4 v = reinterpret_cast<const float4*>(x)[q];
        sum += (v.x + v.y) + (v.z + v.w);
    }
    if (thread < n % 4) {
        sum += x[4 * quads + thread];
    }

    __shared__ float warp_sums[8];
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    }
    if (threadIdx.x % 32 == 0) {
        warp_sums[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < 8 ? warp_sums[threadIdx.x] : 0.0f;
        for (int offset = 4; offset > 0; offset /= 2) {
            sum += __shfl_down_sync(0xffffffffu, sum, offset);
        }
        if (threadIdx.x == 0) {
            sums[blockIdx.x] = sum;
        }
    }
}
"""

REDUCE_SUM: Final = Problem(
    id="reduce_sum",
    version="4",
    tier=1,
    title="Sum of a vector",
    statement=(
        "total[0] is the sum of x[0] to x[n - 1], in float32, added in any order. total holds no defined value at "
        "the start: a kernel that accumulates into it needs `// assay: fill total value=0`, or a launch of its own "
        "that clears it. n may be any size in its range."
    ),
    inputs=(_X,),
    outputs=(Tensor("total", ("1",)),),
    sizes=("n",),
    example_sizes=({"n": 1 << 18}, {"n": 1000}, {"n": 100_003}),
    hidden_sizes=hidden_sizes(n=1 << 17),
    serves=FLAT_SUMS,
    edge_sizes=FLAT_SUM_EDGES,
    distributions=summed_distributions(_X),
    mixture=summed_mixture(_X),
    edge_probes=(
        probe("one_term", ONE_TERM_REASON, (_X,), dominated(fine()), replace(one_term(), any_length=True), {}),
    ),
    probes=(probe("one_term", ONE_TERM_REASON, (_X,), dominated(fine()), one_term(), {"n": 4099}),),
    tolerance=summation(FLAT_CHAIN),
    oracle=_reduce_sum_oracle,
    work=lambda sizes: Work(4 * sizes["n"], 4, sizes["n"] - 1),
    naive=Kernel("sum_kernel", _REDUCE_SUM_NAIVE, "every element is added to one place by an atomic"),
    fast=Kernel(
        "block_sums", _REDUCE_SUM_FAST, "float4 loads, warp shuffles, one partial sum for each block, second stage"
    ),
    timing_sizes={"n": 1 << 22},
    baseline="x.sum().reshape(1)",
)


# row_sum ------------------------------------------------------------------------------------------------------------


def _row_sum_oracle(arrays: Arrays, sizes: Sizes) -> dict[str, Expected]:
    xp, x = doubles(arrays, "x")
    total = xp.sum(x, axis=1)
    scale = xp.sqrt(xp.sum(x * x, axis=1) + total * total)
    return {"y": Expected(total, scale, error_bounds.of_sums(x, scale, 4.0))}


_ROW_SUM_NAIVE = """\
__global__ void row_sum_kernel(const float* x, float* y, int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        float sum = 0.0f;
        for (int col = 0; col < cols; col++) {
            sum += x[(long long)row * cols + col];
        }
        y[row] = sum;
    }
}
"""

# A row starts at any multiple of 4 bytes, so its first elements are read alone up to a 16-byte boundary.
_ROW_SUM_FAST = """\
// assay: launch block_row_sum grid=(rows) block=(min(ceil_div(cols, 256), 16) * 32) args=(x, y, rows, cols)

__global__ void __launch_bounds__(512)
block_row_sum(const float* __restrict__ x, float* __restrict__ y, int rows, int cols)
{
    const long long start = (long long)blockIdx.x * cols;
    const float* row = x + start;
    const int head = min((int)((4 - start % 4) % 4), cols);
    const int quads = (cols - head) / 4;
    const int tail = head + 4 * quads;
    const float4* body = reinterpret_cast<const float4*>(row + head);

    float sum = 0.0f;
    for (int q = threadIdx.x; q < quads; q += blockDim.x) {
        const float4 v = body[q];
        sum += (v.x + v.y) + (v.z + v.w);
    }
    if ((int)threadIdx.x < head) {
        sum += row[threadIdx.x];
    }
    if ((int)threadIdx.x < cols - tail) {
        sum += row[tail + threadIdx.x];
    }

    __shared__ float warp_sums[16];
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    }
    if (threadIdx.x % 32 == 0) {
        warp_sums[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? warp_sums[threadIdx.x] : 0.0f;
        for (int offset = 8; offset > 0; offset /= 2) {
            sum += __shfl_down_sync(0xffffffffu, sum, offset);
        }
        if (threadIdx.x == 0) {
            y[blockIdx.x] = sum;
        }
    }
}
"""

ROW_SUM: Final = Problem(
    id="row_sum",
    version="4",
    tier=1,
    title="Sum of each row",
    statement=(
        "y[r] is the sum of x[r, 0] to x[r, cols - 1] for 0 <= r < rows, in float32, added in any order; x is "
        "row-major of shape rows x cols. rows and cols may be any sizes in their ranges, so a row need not start at "
        "a multiple of 16 bytes, and there may be one long row or many short ones."
    ),
    inputs=(_MATRIX,),
    outputs=(Tensor("y", ("rows",)),),
    sizes=("rows", "cols"),
    example_sizes=({"rows": 256, "cols": 1024}, {"rows": 100, "cols": 33}, {"rows": 3, "cols": 20_000}),
    hidden_sizes=hidden_sizes(rows=300, cols=1100),
    serves=SizeRange(MOST_ROWS, (_MATRIX,)),
    edge_sizes=ROW_EDGES,
    distributions=summed_distributions(_MATRIX),
    mixture=mixture(
        (*summed_distributions(_MATRIX), distribution("sparse", SPARSE, (_MATRIX,), sparse)), (_MATRIX,), "rows"
    ),
    edge_probes=(
        probe("one_term", ONE_TERM_REASON, (_MATRIX,), dominated(fine()), replace(one_term(), any_length=True), {}),
    ),
    probes=(
        probe("one_term", ONE_TERM_REASON, (_MATRIX,), dominated(fine()), one_term(), {"rows": 67, "cols": 259}),
    ),
    tolerance=summation(1 << 16),
    oracle=_row_sum_oracle,
    sampler=row_wise("x", length="cols"),
    work=lambda sizes: Work(
        4 * sizes["rows"] * sizes["cols"], 4 * sizes["rows"], sizes["rows"] * (sizes["cols"] - 1)
    ),
    naive=Kernel("row_sum_kernel", _ROW_SUM_NAIVE, "one thread for each row: neighbours read a row's length apart"),
    fast=Kernel("block_row_sum", _ROW_SUM_FAST, "one block for each row, float4 loads past the head, warp shuffles"),
    timing_sizes={"rows": 8192, "cols": 4096},
    baseline="x.sum(dim=1)",
)


# histogram ----------------------------------------------------------------------------------------------------------

_VALUES = Tensor("values", ("n",), DType.INT32)
_COUNTED = exact("Counts are integers, so every one must be right.")


def _histogram_oracle(arrays: Arrays, sizes: Sizes) -> dict[str, Expected]:
    found = counts(arrays["values"], 256)
    return {"counts": Expected(found, 0 * found)}


def _one_value(rng: Rng, shape: Shape) -> Array:
    return rng.xp.broadcast_to(rng.integers(0, 255, (1,)), shape)


def _skewed(rng: Rng, shape: Shape) -> Array:
    """Four in five elements share one of three values, the others are even."""
    favourite = rng.integers(0, 255, (3,))[rng.integers(0, 2, shape)]
    return rng.xp.where(rng.uniform(0.0, 1.0, shape) < 0.8, favourite, rng.integers(0, 255, shape))


def _runs(rng: Rng, shape: Shape) -> Array:
    return rng.xp.sort(rng.integers(0, 255, shape))


def _small_first(rng: Rng, shape: Shape) -> Array:
    """Some kernels look at the first values, and take the others to be as small."""
    first = shape[0] * rng.uniform(0.5, 0.9, (1,))
    small = rng.integers(0, 127, shape) // rng.integers(1, 2, (1,))
    return rng.xp.where(rng.arange(shape[0]) < first, small, rng.integers(0, 255, shape))


def _nearly_sorted(rng: Rng, shape: Shape) -> Array:
    return rng.xp.where(rng.uniform(0.0, 1.0, shape) < 1e-3, rng.integers(0, 255, shape), _runs(rng, shape))


def _ends(rng: Rng, shape: Shape) -> Array:
    return 255 * rng.integers(0, 1, shape)


_HISTOGRAM_INPUTS: Final[tuple[tuple[str, str, Maker], ...]] = (
    ("uniform", "every value equally likely", uniform_int(0, 255)),
    ("one_value", "all elements equal: every atomic meets every other one", _one_value),
    ("skewed", "three values share four fifths of the elements", _skewed),
    ("runs", "sorted, so that neighbours are equal", _runs),
    ("ends", "only 0 and 255", _ends),
)
_HISTOGRAM_PARTS: Final[tuple[tuple[str, str, Maker], ...]] = (
    ("small_first", "values below 64 or 128, and somewhere in the last half all others", _small_first),
    ("nearly_sorted", "sorted, but for one in a thousand", _nearly_sorted),
)

_HISTOGRAM_NAIVE = """\
// assay: fill counts value=0
// assay: launch histogram_kernel grid=(ceil_div(n, 256)) block=(256) args=(values, counts, n)

__global__ void histogram_kernel(const int* values, int* counts, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(&counts[values[i]], 1);
    }
}
"""

_HISTOGRAM_FAST = """\
// assay: fill counts value=0
// assay: launch private_histograms grid=(min(ceil_div(n, 4096), 1024)) block=(256) args=(values, counts, n)

__global__ void __launch_bounds__(256)
private_histograms(const int* __restrict__ values, int* __restrict__ counts, int n)
{
    __shared__ int bins[8][256];  // one copy for each warp, so that warps do not wait for each other
    for (int w = 0; w < 8; w++) {
        bins[w][threadIdx.x] = 0;
    }
    __syncthreads();

    int* mine = bins[threadIdx.x / 32];
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    const int threads = gridDim.x * blockDim.x;
    const int quads = n / 4;
    for (int q = thread; q < quads; q += threads) {
        const int4 v = reinterpret_cast<const int4*>(values)[q];
        atomicAdd(&mine[v.x], 1);
        atomicAdd(&mine[v.y], 1);
        atomicAdd(&mine[v.z], 1);
        atomicAdd(&mine[v.w], 1);
    }
    if (thread < n % 4) {
        atomicAdd(&mine[values[4 * quads + thread]], 1);
    }
    __syncthreads();

    int sum = 0;
    for (int w = 0; w < 8; w++) {
        sum += bins[w][threadIdx.x];
    }
    if (sum > 0) {
        atomicAdd(&counts[threadIdx.x], sum);
    }
}
"""

_LAST_COUNTED: Final = LAST_FLAT + 1
"""Odd, as all that `last` draws then is: a float32 that counts has no odd number above 2^24."""

HISTOGRAM: Final = Problem(
    id="histogram",
    version="4",
    tier=1,
    title="Histogram of bytes",
    statement=(
        "counts[v] is how many of values[0] to values[n - 1] equal v, for 0 <= v < 256; all integers are int32 and "
        "every value lies in 0..255. counts holds no defined value at the start: clear it first, for example with "
        "`// assay: fill counts value=0`. n may be any size in its range, and all values may be equal."
    ),
    inputs=(_VALUES,),
    outputs=(Tensor("counts", ("256",), DType.INT32),),
    sizes=("n",),
    example_sizes=({"n": 1 << 18}, {"n": 1000}, {"n": 100_003}),
    hidden_sizes=hidden_sizes(n=1 << 17),
    serves=SizeRange({"n": _LAST_COUNTED}),
    edge_sizes=edge_sizes({"n": above(1 << 18, 1 << 20)}, {"n": last(_LAST_COUNTED)}),
    distributions=(
        *(distribution(name, reason, (_VALUES,), maker) for name, reason, maker in _HISTOGRAM_INPUTS),
        *(distribution(name, reason, (_VALUES,), maker, role="partial") for name, reason, maker in _HISTOGRAM_PARTS),
    ),
    probes=(probe("full_bin", "a count that 16 bits cannot hold", (_VALUES,), _one_value, _COUNTED, {"n": 70_001}),),
    tolerance=_COUNTED,
    oracle=_histogram_oracle,
    work=lambda sizes: Work(4 * sizes["n"], 1024, 0),
    naive=Kernel("histogram_kernel", _HISTOGRAM_NAIVE, "one atomic in global memory for each element"),
    fast=Kernel("private_histograms", _HISTOGRAM_FAST, "int4 loads, a copy of the bins in shared memory per warp"),
    timing_sizes={"n": 1 << 24},
    baseline="torch.bincount(values, minlength=256).to(torch.int32)",
)
