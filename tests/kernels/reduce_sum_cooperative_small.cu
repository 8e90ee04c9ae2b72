// problem: reduce_sum
// style: eight blocks that meet twice on the grid, each with partial sums of its own in shared memory
// assay: temp partial float32 (8)
// assay: launch sum_all grid=(8) block=(64) cooperative args=(x, partial, total, n)

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__global__ void sum_all(const float* x, float* partial, float* total, int n)
{
    __shared__ float part[64];
    cg::grid_group grid = cg::this_grid();
    const int t = threadIdx.x;
    if (grid.thread_rank() == 0) *total = 0.0f;
    float sum = 0.0f;
    for (size_t i = grid.thread_rank(); i < n; i += grid.size()) sum += x[i];
    part[t] = sum;
    grid.sync();
    for (int half = 32; half > 0; half /= 2) {
        if (t < half) part[t] += part[t + half];
        cg::this_thread_block().sync();
    }
    if (t == 0) partial[blockIdx.x] = part[0];
    grid.sync();
    if (grid.thread_rank() < 8) atomicAdd(total, partial[grid.thread_rank()]);
}
