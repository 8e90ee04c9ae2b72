// problem: layer_norm
// style: mean first, then the squares about it; tiles of 16 lanes from cooperative groups
// assay: launch layer_norm_tiles grid=(ceil_div(rows, 8)) block=(128) args=(x, weight, bias, y, eps, rows, cols)

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__device__ float tile_sum(const cg::thread_block_tile<16>& tile, float value)
{
    for (int mask = 8; mask > 0; mask /= 2) {
        value += tile.shfl_xor(value, mask);
    }
    return value;
}

__global__ void layer_norm_tiles(const float* x, const float* weight, const float* bias, float* y, float eps, int rows,
                                 int cols)
{
    const auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    const int row = blockIdx.x * 8 + tile.meta_group_rank();
    if (row >= rows) {
        return;
    }
    const float* in = x + (size_t)row * cols;
    float sum = 0.0f;
    for (int col = tile.thread_rank(); col < cols; col += 16) {
        sum += in[col];
    }
    const float mean = tile_sum(tile, sum) / cols;
    float squares = 0.0f;
    for (int col = tile.thread_rank(); col < cols; col += 16) {
        const float d = in[col] - mean;
        squares += d * d;
    }
    const float scale = rsqrtf(tile_sum(tile, squares) / cols + eps);
    for (int col = tile.thread_rank(); col < cols; col += 16) {
        y[(size_t)row * cols + col] = fmaf((in[col] - mean) * scale, weight[col], bias[col]);
    }
}
