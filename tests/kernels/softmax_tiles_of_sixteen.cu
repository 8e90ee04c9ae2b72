// problem: softmax
// style: a row for each tile of 16; maxima by shuffles within the tile, any() skips tiles that see only small numbers
// assay: launch softmax grid=(ceil_div(rows, 8)) block=(128) args=(x, y, rows, cols)

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__global__ void softmax(const float* x, float* y, int rows, int cols)
{
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    const int row = blockIdx.x * 8 + threadIdx.x / 16;
    if (row >= rows) return;
    const float* from = x + (size_t)row * cols;
    float most = -INFINITY, sum = 0.0f;
    for (int start = 0; start < cols; start += 16) {
        const int col = start + tile.thread_rank();
        float v = col < cols ? from[col] : -INFINITY;
        if (!tile.any(v > most)) continue;
        for (int step = 8; step > 0; step /= 2) v = fmaxf(v, tile.shfl_xor(v, step));
        most = fmaxf(most, v);
    }
    for (int col = tile.thread_rank(); col < cols; col += 16) sum += expf(from[col] - most);
    for (int step = 1; step < 16; step *= 2) {
        const float other = tile.shfl_up(sum, step);
        if (tile.thread_rank() >= step) sum += other;
    }
    sum = tile.shfl(sum, 15);
    for (int col = tile.thread_rank(); col < cols; col += 16) y[(size_t)row * cols + col] = expf(from[col] - most) / sum;
}
