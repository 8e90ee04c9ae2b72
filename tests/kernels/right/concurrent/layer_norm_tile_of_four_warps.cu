// problem: layer_norm
// assay: launch ln grid=(ceil_div(rows, 2)) block=(256) args=(x, weight, bias, y, eps, rows, cols)
// style: cooperative_groups: tiles of 128 threads over cg::block_tile_memory, cg::reduce across four warps, a row each
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

__global__ void ln(const float* x, const float* weight, const float* bias, float* y, float eps, int rows, int cols)
{
    __shared__ cg::block_tile_memory<256> room;
    auto block = cg::this_thread_block(room);
    auto tile = cg::tiled_partition<128>(block);
    const int row = blockIdx.x * 2 + tile.meta_group_rank();
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    float s = 0.0f;
    for (int c = tile.thread_rank(); c < cols; c += 128) s += in[c];
    const float mean = cg::reduce(tile, s, cg::plus<float>()) / cols;
    float q = 0.0f;
    for (int c = tile.thread_rank(); c < cols; c += 128) q += (in[c] - mean) * (in[c] - mean);
    const float factor = rsqrtf(cg::reduce(tile, q, cg::plus<float>()) / cols + eps);
    for (int c = tile.thread_rank(); c < cols; c += 128) y[(size_t)row * cols + c] = (in[c] - mean) * factor * weight[c] + bias[c];
}
