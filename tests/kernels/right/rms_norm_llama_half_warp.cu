// problem: rms_norm
// assay: launch rms_tiles grid=(ceil_div(rows, 8)) block=(128) args=(x, weight, y, eps, rows, cols)
// style: half a warp a row: tiles of sixteen lanes from cooperative groups, shfl_xor of the tile
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void rms_tiles(const float* x, const float* w, float* y, float eps, int rows, int cols)
{
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    const int row = blockIdx.x * 8 + tile.meta_group_rank();
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    float ss = 0.0f;
    for (int j = tile.thread_rank(); j < cols; j += 16) ss += in[j] * in[j];
    for (int d = 8; d > 0; d /= 2) ss += tile.shfl_xor(ss, d);
    const float inv = 1.0f / sqrtf(ss / cols + eps);
    for (int j = tile.thread_rank(); j < cols; j += 16) y[(size_t)row * cols + j] = w[j] * (inv * in[j]);
}
