// problem: row_sum
// style: cooperative groups: tiles of eight threads, each tile a row, cg::reduce at the end
// assay: launch row_sum grid=(ceil_div(rows, 16)) block=(128) args=(x, y, rows, cols)

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

__global__ void row_sum(const float* x, float* y, int rows, int cols)
{
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    const int row = blockIdx.x * 16 + tile.meta_group_rank();
    float sum = 0.0f;
    for (int i = tile.thread_rank(); row < rows && i < cols; i += tile.size()) sum += x[(size_t)row * cols + i];
    sum = cg::reduce(tile, sum, cg::plus<float>());
    if (tile.thread_rank() == 0 && row < rows) y[row] = sum;
}
