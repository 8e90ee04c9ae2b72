// problem: softmax
// class: schedule
// race: barrier
// must: anything but passed
// why: a cooperative kernel leaves parts of a row's sum in global memory and reads the other blocks' parts behind __syncthreads(): grid.sync() is missing
// proof: __syncthreads() meets the own block only; a block that reads before its neighbour has stored
// assay: temp sums float32 (rows * 4)
// assay: fill sums value=0
// assay: launch sm grid=(4, min(rows, 16)) block=(64) cooperative args=(x, y, sums, rows, cols)
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void sm(const float* x, float* y, float* sums, int rows, int cols)
{
    const auto block = cg::this_thread_block();
    const auto warp = cg::tiled_partition<32>(block);
    __shared__ float half[2];
    for (int r = blockIdx.y; r < rows; r += gridDim.y) {
        const float* in = x + (size_t)r * cols;
        float m = -INFINITY, s = 0.0f;
        for (int c = block.thread_rank(); c < cols; c += 64) m = fmaxf(m, in[c]);
        for (int d = 16; d; d >>= 1) m = fmaxf(m, warp.shfl_xor(m, d));
        if (warp.thread_rank() == 0) half[warp.meta_group_rank()] = m;
        block.sync();
        m = fmaxf(half[0], half[1]);
        block.sync();
        for (int c = blockIdx.x * 64 + block.thread_rank(); c < cols; c += 256) s += expf(in[c] - m);
        for (int d = 16; d; d >>= 1) s += warp.shfl_xor(s, d);
        if (warp.thread_rank() == 0) half[warp.meta_group_rank()] = s;
        block.sync();
        if (block.thread_rank() == 0) {
            *(volatile float*)&sums[4 * r + blockIdx.x] = half[0] + half[1];
            __threadfence();
        }
        block.sync();
        s = 0.0f;
        for (int p = 0; p < 4; ++p) s += *(volatile float*)&sums[4 * r + p];
        for (int c = blockIdx.x * 64 + block.thread_rank(); c < cols; c += 256) y[(size_t)r * cols + c] = expf(in[c] - m) / s;
    }
}
