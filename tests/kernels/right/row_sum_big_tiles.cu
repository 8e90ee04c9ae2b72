// problem: row_sum
// assay: launch row_sum_tile64 grid=(ceil_div(rows, 4)) block=(256) args=(x, y, rows, cols)
// style: cooperative groups' tiles larger than a warp: block_tile_memory, tiled_partition<64>, cg::reduce through shared memory
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

__global__ void row_sum_tile64(const float* x, float* y, int rows, int cols)
{
    __shared__ cg::block_tile_memory<256> memory;
    auto block = cg::this_thread_block(memory);
    auto tile = cg::tiled_partition<64>(block);
    const int row = blockIdx.x * 4 + tile.meta_group_rank();
    float s = 0.0f;
    if (row < rows)
        for (int c = tile.thread_rank(); c < cols; c += tile.size()) s += x[(size_t)row * cols + c];
    s = cg::reduce(tile, s, cg::plus<float>());
    if (row < rows && tile.thread_rank() == 0) y[row] = s;
}
