// problem: saxpy
// assay: launch saxpy_async grid=(min(ceil_div(n, 256), 400)) block=(128) args=(x, y, out, alpha, n)
// style: cooperative_groups::memcpy_async of both operands, two buffers, wait_prior<2> while the next tile is on its way
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;

__global__ void saxpy_async(const float* x, const float* y, float* out, float alpha, int n)
{
    __shared__ alignas(16) float xs[2][256], ys[2][256];
    auto block = cg::this_thread_block();
    const int tiles = (n + 255) / 256;
    auto fetch = [&](int tile, int b) {
        const unsigned bytes = sizeof(float) * min(256, n - tile * 256);
        cg::memcpy_async(block, xs[b], x + (size_t)tile * 256, bytes);
        cg::memcpy_async(block, ys[b], y + (size_t)tile * 256, bytes);
    };
    int b = 0;
    if ((int)blockIdx.x < tiles) fetch(blockIdx.x, 0);
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, b ^= 1) {
        if (tile + (int)gridDim.x < tiles) {
            fetch(tile + gridDim.x, b ^ 1);
            cg::wait_prior<2>(block);
        } else {
            cg::wait(block);
        }
        for (int e = threadIdx.x; e < min(256, n - tile * 256); e += 128) out[tile * 256 + e] = alpha * xs[b][e] + ys[b][e];
        block.sync();
    }
}
