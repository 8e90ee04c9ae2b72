// problem: row_sum
// style: clusters of four blocks that add up one row through each other's shared memory
// assay: launch sum_rows grid=(rows * 4) block=(128) cluster=(4) args=(x, y, cols)

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__global__ void sum_rows(const float* x, float* y, int cols)
{
    __shared__ float of_block;
    __shared__ float warps[4];
    cg::cluster_group cluster = cg::this_cluster();
    int rank = cluster.block_rank(), row = blockIdx.x / 4;
    float sum = 0.0f;
    for (int i = rank * 128 + threadIdx.x; i < cols; i += 4 * 128) sum += x[(size_t)row * cols + i];
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) of_block = warps[0] + warps[1] + warps[2] + warps[3];
    cluster.sync();
    if (rank == 0 && threadIdx.x == 0) {
        sum = 0.0f;
        for (int other = 0; other < 4; ++other) sum += *cluster.map_shared_rank(&of_block, other);
        y[row] = sum;
    }
    cluster.sync();
}
