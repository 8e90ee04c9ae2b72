// problem: reduce_sum
// style: cooperative groups: thread_block, tiled_partition<32>, cg::reduce
// assay: temp partial float32 (96)
// assay: launch tile_sums grid=(96) block=(256) args=(x, partial, n)
// assay: launch tile_sums grid=(1) block=(256) args=(partial, total, 96)

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

__global__ void tile_sums(const float* values, float* sums, int count)
{
    __shared__ float of_warp[8];
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> tile = cg::tiled_partition<32>(block);

    float sum = 0.0f;
    for (int i = blockIdx.x * block.size() + block.thread_rank(); i < count; i += gridDim.x * block.size()) {
        sum += values[i];
    }
    sum = cg::reduce(tile, sum, cg::plus<float>());
    if (tile.thread_rank() == 0) {
        of_warp[tile.meta_group_rank()] = sum;
    }
    block.sync();
    if (tile.meta_group_rank() == 0) {
        float value = tile.thread_rank() < tile.meta_group_size() ? of_warp[tile.thread_rank()] : 0.0f;
        for (int offset = tile.size() / 2; offset > 0; offset /= 2) {
            value += tile.shfl_down(value, offset);
        }
        if (tile.thread_rank() == 0) {
            sums[blockIdx.x] = value;
        }
    }
}
