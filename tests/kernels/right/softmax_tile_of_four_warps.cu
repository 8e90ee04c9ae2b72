// problem: softmax
// assay: launch sm grid=(ceil_div(rows, 2)) block=(256) args=(x, y, rows, cols)
// style: cooperative groups' tiles of 128 threads, several warps each, with block_tile_memory
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__global__ void sm(const float* x, float* y, int rows, int cols)
{
    __shared__ cg::block_tile_memory<256> mem;
    auto block = cg::this_thread_block(mem); auto tile = cg::tiled_partition<128>(block);
    int r = blockIdx.x * 2 + tile.meta_group_rank(); if (r >= rows) return;
    const float* in = x + (size_t)r * cols; float m = -INFINITY;
    for (int c = tile.thread_rank(); c < cols; c += 128) m = fmaxf(m, in[c]);
    m = cg::reduce(tile, m, cg::greater<float>());
    float s = 0; for (int c = tile.thread_rank(); c < cols; c += 128) s += __expf(in[c] - m);
    s = cg::reduce(tile, s, cg::plus<float>());
    for (int c = tile.thread_rank(); c < cols; c += 128) y[(size_t)r * cols + c] = __expf(in[c] - m) / s;
}
