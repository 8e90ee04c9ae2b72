"""Moving data without changing it: transpose."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from evaluator.problems.arrays import doubles, elements_of
from evaluator.problems.edges import BLOCKS_IN_Y, LAST_FLAT, above, between, edge_sizes, odd, reach
from evaluator.problems.generators import (
    distribution,
    exact,
    fine,
    hidden_sizes,
    probe,
    usual_distributions,
    whole_range,
)
from evaluator.problems.mixtures import SPARSE, mixture, sparse
from evaluator.problems.problem import (
    Arrays,
    Elements,
    Expected,
    Kernel,
    Oracle,
    Problem,
    SizeRange,
    Sizes,
    Tensor,
    Work,
)
from evaluator.problems.structured import structured_distributions

_X = Tensor("x", ("rows", "cols"))


def _oracle(arrays: Arrays, sizes: Sizes) -> dict[str, Expected]:
    xp, x = doubles(arrays, "x")
    return {"y": Expected(x.mT, xp.zeros_like(x.mT))}


def _sample(
    oracle: Oracle, inputs: Arrays, sizes: Sizes, elements: Elements, scalars: Mapping[str, Any]
) -> dict[str, Expected]:
    """The elements of x that come to these places, as a column."""
    col, row = np.divmod(elements["y"], sizes["rows"])
    there = elements_of(inputs["x"], row * sizes["cols"] + col)[:, None]
    return {"y": oracle({"x": there}, sizes)["y"].at(np.arange(row.size))}


_NAIVE = """\
__global__ void transpose_kernel(const float* x, float* y, int rows, int cols)
{
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < (long long)rows * cols) {
        long long row = i / cols;
        long long col = i % cols;
        y[col * rows + row] = x[i];
    }
}
"""

# One-dimensional grid: blockIdx.y and blockIdx.z end at 65,535, which a tall matrix exceeds.
_FAST = """\
// assay: launch transpose_tiles grid=(ceil_div(rows, 32) * ceil_div(cols, 32)) block=(32, 8) args=(x, y, rows, cols)

__global__ void __launch_bounds__(256)
transpose_tiles(const float* __restrict__ x, float* __restrict__ y, int rows, int cols)
{
    __shared__ float tile[32][33];  // one column more, so that a column of the tile touches 32 different banks
    const int tiles_across = (cols - 1) / 32 + 1;
    const int first_row = (int)(blockIdx.x / tiles_across) * 32;
    const int first_col = (int)(blockIdx.x % tiles_across) * 32;

    // A size can be 2^31 - 1, so differences are compared: first_row + 31 could overflow.
    const bool in_col = (int)threadIdx.x < cols - first_col;
    #pragma unroll
    for (int r = threadIdx.y; r < 32; r += 8) {
        if (in_col && r < rows - first_row) {
            tile[r][threadIdx.x] = x[(long long)(first_row + r) * cols + first_col + threadIdx.x];
        }
    }
    __syncthreads();
    const bool in_row = (int)threadIdx.x < rows - first_row;
    #pragma unroll
    for (int c = threadIdx.y; c < 32; c += 8) {
        if (in_row && c < cols - first_col) {
            y[(long long)(first_col + c) * rows + first_row + threadIdx.x] = tile[threadIdx.x][c];
        }
    }
}
"""

_COPIED = exact("Elements are copied, never rounded, so every bit counts (+0 and -0 are equal).")

_DISTRIBUTIONS: Final = (
    *(d for d in usual_distributions((_X,)) if d.name != "cancellation"),
    replace(
        distribution("whole_range", "magnitudes from 2^-126 to 2^127.9", (_X,), whole_range(-126, 127.9)),
        squares_fit=False,
    ),
    *structured_distributions((_X,)),
)
_SPARSE: Final = distribution("sparse", SPARSE, (_X,), sparse)

TRANSPOSE: Final = Problem(
    id="transpose",
    version="4",
    tier=1,
    title="Matrix transpose",
    statement=(
        "y[c, r] = x[r, c] for 0 <= r < rows and 0 <= c < cols: x is row-major of shape rows x cols, y row-major of "
        "shape cols x rows, both float32. Values may be any finite ones. "
        "rows and cols may be any sizes in their ranges and need not be equal or "
        "multiples of a tile."
    ),
    inputs=(_X,),
    outputs=(Tensor("y", ("cols", "rows")),),
    sizes=("rows", "cols"),
    example_sizes=({"rows": 512, "cols": 512}, {"rows": 100, "cols": 300}),
    hidden_sizes=hidden_sizes(rows=520, cols=520),
    serves=SizeRange({"rows": reach(1 << 17), "cols": reach(1 << 17)}, (_X,), LAST_FLAT),
    edge_sizes=edge_sizes(
        {"rows": above(BLOCKS_IN_Y), "cols": between(1, 5)},
        {"rows": between(1, 5), "cols": above(BLOCKS_IN_Y)},
        {"rows": above(1 << 17), "cols": between(1, 3)},
        {"rows": between(1, 3), "cols": above(1 << 17)},
        {"rows": above(1 << 12), "cols": between(33, 65)},
        {"rows": between(33, 65), "cols": above(1 << 12)},
        {"rows": above(1 << 11), "cols": above(1 << 11)},
        # Beyond 2^24 elements, with rows of odd length: where such a row begins, the index may be no float.
        {"rows": odd(above(1 << 12)), "cols": odd(above(1 << 12))},
    ),
    distributions=_DISTRIBUTIONS,
    mixture=mixture((*_DISTRIBUTIONS, _SPARSE), (_X,), "rows"),
    probes=(
        probe(
            "fine",
            "values that need all 23 fraction bits of float32",
            (_X,),
            fine(),
            _COPIED,
            {"rows": 67, "cols": 35},
        ),
    ),
    tolerance=_COPIED,
    oracle=_oracle,
    sampler=_sample,
    work=lambda sizes: Work(4 * sizes["rows"] * sizes["cols"], 4 * sizes["rows"] * sizes["cols"], 0),
    naive=Kernel("transpose_kernel", _NAIVE, "one thread for each element: reads in order, writes scattered"),
    fast=Kernel("transpose_tiles", _FAST, "32 x 32 tiles through padded shared memory, so both sides are coalesced"),
    timing_sizes={"rows": 4096, "cols": 4096},
    baseline="x.t().contiguous()",
)
