"""Counts at the sizes of the timing, of kernels that do there what they should and of such that do not."""

import pytest

from common.contract import Settings, Status, Submission
from evaluator.pipeline.pipeline import evaluate

TILED = """// problem: transpose
// assay: launch t grid=({grid}) block=(32, 8) args=(x, y, rows, cols)
__global__ void t(const float* x, float* y, int rows, int cols)
{{
    {first}
    __shared__ float tile[32][33];
    int r = blockIdx.y * 32 + threadIdx.y, c = blockIdx.x * 32 + threadIdx.x;
    for (int j = 0; j < 32; j += 8)
        if (r + j < rows && c < cols) tile[threadIdx.y + j][threadIdx.x] = x[(r + j) * cols + c];
    __syncthreads();
    r = blockIdx.y * 32 + threadIdx.x, c = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (r < rows && c + j < cols) y[(c + j) * rows + r] = tile[threadIdx.x][threadIdx.y + j];
}}
"""
GRID = "ceil_div(cols, 32), ceil_div(rows, 32)"
NOTHING = TILED.format(grid=GRID, first="if (rows * cols > 4000000) return;")
ONE_BLOCK_WHERE_LARGE = TILED.format(
    grid="max(1, ceil_div(cols, 32) * min(1, 4000000 // (rows * cols))), "
    "max(1, ceil_div(rows, 32) * min(1, 4000000 // (rows * cols)))",
    first="",
)
FEW_PRODUCTS = """// problem: matmul
// assay: launch mm grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)
__global__ void mm(const float* a, const float* b, float* c, int m, int n, int k)
{
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || column >= n) return;
    float sum = 0.0f;
    for (int i = 0; i < (k > 700 ? 8 : k); i++) sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
}
"""
ONE_BLOCK_FOR_ALL = """// problem: reduce_sum
// assay: fill total value=0
// assay: launch sum grid=(ceil_div(n, 256)) block=(256) args=(x, total, n)
__global__ void sum(const float* x, float* total, int n)
{
    bool alone = gridDim.x > 8000;
    if (alone && blockIdx.x != 7) return;
    float part = 0.0f;
    int first = alone ? 0 : blockIdx.x * 256, step = alone ? 256 : gridDim.x * 256;
    for (int i = first + threadIdx.x; i < n; i += step) part += x[i];
    for (int half = 16; half > 0; half /= 2) part += __shfl_down_sync(~0u, part, half);
    if (threadIdx.x % 32 == 0) atomicAdd(total, part);
}
"""


def graded(toolbox, source):
    problem = source.split(maxsplit=3)[2]
    verdict = evaluate(Submission(problem=problem, source=source, settings=Settings(verification="quick")), toolbox)
    assert verdict.status is Status.PASSED, verdict.message
    return verdict


@pytest.mark.parametrize("source", [NOTHING, ONE_BLOCK_WHERE_LARGE, FEW_PRODUCTS, ONE_BLOCK_FOR_ALL])
def test_work_left_out_where_nobody_checks_it_earns_no_estimate(toolbox, source):
    verdict = graded(toolbox, source)
    (said,) = (warning for warning in verdict.correctness.warnings if "that the problem needs" in warning)
    assert said.startswith("at ")
    assert verdict.profile.estimate.sizes == verdict.profile.evidence.sizes


def test_an_honest_kernel_is_estimated_at_the_sizes_of_the_timing(toolbox):
    verdict = graded(toolbox, TILED.format(grid=GRID, first=""))
    assert verdict.correctness.warnings == ()
    assert verdict.profile.estimate.sizes == {"rows": 4096, "cols": 4096}
