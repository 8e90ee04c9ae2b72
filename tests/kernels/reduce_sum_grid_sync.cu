// problem: reduce_sum
// style: a cooperative launch whose blocks all wait for each other in the middle of the kernel
// assay: temp partial float32 (128)
// assay: launch sum_all grid=(128) block=(256) cooperative args=(x, partial, total, n)

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

__device__ float block_sum(float value)
{
    __shared__ float warps[8];
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    value = cg::reduce(warp, value, cg::plus<float>());
    __syncthreads();
    if (warp.thread_rank() == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0.0f;
    for (int i = 0; i < 8; ++i) sum += warps[i];
    return sum;
}

__global__ void sum_all(const float* x, float* partial, float* total, int n)
{
    float sum = 0.0f;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += 128 * 256) sum += x[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
    cg::this_grid().sync();
    if (blockIdx.x == 0) {
        sum = block_sum(threadIdx.x < 128 ? partial[threadIdx.x] : 0.0f);
        if (threadIdx.x == 0) *total = sum;
    }
}
