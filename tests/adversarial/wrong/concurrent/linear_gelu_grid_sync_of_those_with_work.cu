// problem: linear_gelu
// class: schedule
// race: divergence
// must: anything but passed
// why: a cooperative kernel stores products first and applies the epilogue behind grid.sync(), which stands in the loop over tiles, so blocks with fewer tiles call it less often than others
// proof: CUDA guide: all threads of the grid must call grid.sync(); a block that calls it once less leaves the others waiting, or their phases apart
// assay: launch lg grid=(7) block=(16, 16) cooperative args=(x, weight, bias, y, m, n, k)
#include <cooperative_groups.h>

__global__ void lg(const float* x, const float* weight, const float* bias, float* y, int m, int n, int k)
{
    auto grid = cooperative_groups::this_grid();
    const int across = (n + 15) / 16, tiles = across * ((m + 15) / 16);
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int j = tile % across * 16 + threadIdx.x, i = tile / across * 16 + threadIdx.y;
        const bool here = i < m && j < n;
        float s = 0.0f;
        for (int l = 0; here && l < k; ++l) s += x[(size_t)i * k + l] * weight[(size_t)j * k + l];
        if (here) y[(size_t)i * n + j] = s;
        grid.sync();
        if (here) {
            const float z = y[(size_t)i * n + j] + bias[j];
            y[(size_t)i * n + j] = 0.5f * z * (1.0f + erff(z * 0.707106781f));
        }
    }
}
