// problem: matmul
// assay: launch gemm_stages grid=(ceil_div(n, 32), ceil_div(m, 32)) block=(128) shared=(3 * (32 * 16 + 16 * 32) * 4) args=(a, b, c, m, n, k)
// style: three stages in dynamic shared memory filled by __pipeline_memcpy_async; zeros are stored where the matrices end
#include <cuda_pipeline.h>

constexpr int stages = 3, tile = 32, deep = 16;

struct stage {
    float a[tile][deep];
    float b[deep][tile];
};

__device__ void put(float* to, const float* base, int row, int rows, int col, int cols)
{
    if (row < rows && col < cols) __pipeline_memcpy_async(to, base + (size_t)row * cols + col, sizeof(float));
    else *to = 0.0f;
}

__global__ void __launch_bounds__(128) gemm_stages(const float* a, const float* b, float* c, int m, int n, int k)
{
    extern __shared__ float4 raw[];
    stage* const ring = reinterpret_cast<stage*>(raw);
    const int r0 = blockIdx.y * tile, c0 = blockIdx.x * tile, steps = (k + deep - 1) / deep;
    auto fetch = [&](int s) {
        if (s < steps) {
            stage& to = ring[s % stages];
            for (int i = threadIdx.x; i < tile * deep; i += 128) {
                put(&to.a[i / deep][i % deep], a, r0 + i / deep, m, s * deep + i % deep, k);
                put(&to.b[i / tile][i % tile], b, s * deep + i / tile, k, c0 + i % tile, n);
            }
        }
        __pipeline_commit();
    };
    const int ty = threadIdx.x / 16 * 4, tx = threadIdx.x % 16 * 2;
    float acc[4][2] = {};
    for (int s = 0; s < stages - 1; ++s) fetch(s);
    for (int s = 0; s < steps; ++s) {
        __pipeline_wait_prior(stages - 2);
        __syncthreads();
        fetch(s + stages - 1);
        const stage& now = ring[s % stages];
#pragma unroll
        for (int l = 0; l < deep; ++l)
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 2; ++j) acc[i][j] += now.a[ty + i][l] * now.b[l][tx + j];
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 2; ++j)
            if (r0 + ty + i < m && c0 + tx + j < n) c[(size_t)(r0 + ty + i) * n + c0 + tx + j] = acc[i][j];
}
