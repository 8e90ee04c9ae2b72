// problem: histogram
// assay: temp part int32 (16 * 256)
// assay: launch hist grid=(16) block=(256) cooperative args=(values, counts, part, n)
// style: cooperative_groups grid.barrier_arrive() and barrier_wait(token) around work that needs no other block
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void hist(const int* values, int* counts, int* part, int n)
{
    __shared__ int bins[256];
    auto grid = cg::this_grid();
    bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = grid.thread_rank(); i < n; i += grid.size()) atomicAdd(&bins[values[i]], 1);
    __syncthreads();
    part[blockIdx.x * 256 + threadIdx.x] = bins[threadIdx.x];
    auto token = grid.barrier_arrive();
    const int bin = blockIdx.x * 16 + threadIdx.x / 16, own = threadIdx.x % 16;
    grid.barrier_wait(cuda::std::move(token));
    int s = part[own * 256 + bin];
    for (int d = 8; d; d >>= 1) s += __shfl_down_sync(~0u, s, d, 16);
    if (own == 0) counts[bin] = s;
}
