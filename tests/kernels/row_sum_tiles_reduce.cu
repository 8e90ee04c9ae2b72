// problem: row_sum
// style: each row by a tile of 8 lanes, four rows a warp; cg::reduce, which takes the tiles' masks
// assay: launch sum grid=(ceil_div(rows, 16)) block=(128) args=(x, y, rows, cols)

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

__global__ void sum(const float* x, float* y, int rows, int cols)
{
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    const int row = blockIdx.x * 16 + tile.meta_group_rank();
    float total = 0.0f;
    if (row < rows)
        for (int col = tile.thread_rank(); col < cols; col += 8) total += x[(size_t)row * cols + col];
    total = cg::reduce(tile, total, cg::plus<float>());
    if (tile.thread_rank() == 0 && row < rows) y[row] = total;
}
