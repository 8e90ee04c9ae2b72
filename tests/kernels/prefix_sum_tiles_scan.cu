// problem: prefix_sum
// style: one block; cg::inclusive_scan over tiles of 4, whose totals are scanned by tiles of 16, then of the chunk's end
// assay: launch scan grid=(1) block=(64) args=(x, y, n)

#include <cooperative_groups.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

__global__ void scan(const float* x, float* y, int n)
{
    __shared__ float totals[16];
    auto block = cg::this_thread_block();
    auto four = cg::tiled_partition<4>(block);
    auto sixteen = cg::tiled_partition<16>(block);
    float before = 0.0f;
    for (int start = 0; start < n; start += 64) {
        const int i = start + threadIdx.x;
        const float own = cg::inclusive_scan(four, i < n ? x[i] : 0.0f, cg::plus<float>());
        if (four.thread_rank() == 3) totals[four.meta_group_rank()] = own;
        block.sync();
        const float summed = cg::inclusive_scan(sixteen, totals[sixteen.thread_rank()], cg::plus<float>());
        const float earlier = __shfl_sync(0xffffu << (threadIdx.x & 16), summed, (threadIdx.x / 4 + 15) % 16, 16);
        if (i < n) y[i] = before + own + (threadIdx.x < 4 ? 0.0f : earlier);
        before += __shfl_sync(0xffffffffu, summed, 15, 16);
        block.sync();
    }
}
