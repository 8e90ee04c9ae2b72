// problem: matmul
// assay: temp halves float32 (2 * m * n)
// assay: launch mm grid=(48) block=(16, 16) cooperative args=(a, b, c, halves, m, n, k)
// style: cooperative: blocks walk over tiles and halves of the depth, cg::sync(grid), then add the halves from each other
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void mm(const float* a, const float* b, float* c, float* halves, int m, int n, int k)
{
    __shared__ float as[16][16], bs[16][17];
    const int tx = threadIdx.x, ty = threadIdx.y, across = (n + 15) / 16, all = across * ((m + 15) / 16), mid = (k + 1) / 2;
    for (int job = blockIdx.x; job < 2 * all; job += gridDim.x) {
        const int tile = job >> 1, row = tile / across * 16 + ty, col = tile % across * 16 + tx;
        const int begin = job & 1 ? mid : 0, end = job & 1 ? k : mid;
        float s = 0.0f;
        for (int l = begin; l < end; l += 16) {
            as[ty][tx] = row < m && l + tx < end ? a[(size_t)row * k + l + tx] : 0.0f;
            bs[ty][tx] = col < n && l + ty < end ? b[(size_t)(l + ty) * n + col] : 0.0f;
            __syncthreads();
#pragma unroll 4
            for (int e = 0; e < 16; ++e) s += as[ty][e] * bs[e][tx];
            __syncthreads();
        }
        if (row < m && col < n) halves[((size_t)(job & 1) * m + row) * n + col] = s;
    }
    cg::sync(cg::this_grid());
    const size_t count = (size_t)m * n;
    for (size_t i = (size_t)blockIdx.x * 256 + ty * 16 + tx; i < count; i += (size_t)gridDim.x * 256) c[i] = halves[i] + halves[count + i];
}
