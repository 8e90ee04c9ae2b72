// problem: matmul
// style: three bfloat16 parts a number, the six products that matter by mma.m16n8k8, smallest first into zeros, added in float32 outside
// assay: launch mm_bf16x6 grid=(ceil_div(n, 8), ceil_div(m, 16)) block=(32) args=(a, b, c, m, n, k)
#include <cuda_bf16.h>

__device__ unsigned pack(float low, float high)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(low)) | __bfloat16_as_ushort(__float2bfloat16_rn(high)) << 16;
}

__device__ float rest(float v) { return v - __bfloat162float(__float2bfloat16_rn(v)); }

__global__ void mm_bf16x6(const float* a, const float* b, float* c, int m, int n, int k)
{
    const int group = threadIdx.x / 4, quad = threadIdx.x % 4, col = blockIdx.x * 8 + group;
    float sum[4] = {};
    for (int first = 0; first < k; first += 8) {
        const int l = first + 2 * quad;
        unsigned pa[3][2], pb[3];
        for (int e = 0; e < 2; ++e) {
            const int r = blockIdx.y * 16 + group + 8 * e;
            float u = r < m && l < k ? a[(size_t)r * k + l] : 0.0f;
            float v = r < m && l + 1 < k ? a[(size_t)r * k + l + 1] : 0.0f;
            for (int p = 0; p < 3; ++p, u = rest(u), v = rest(v)) pa[p][e] = pack(u, v);
        }
        float u = l < k && col < n ? b[(size_t)l * n + col] : 0.0f;
        float v = l + 1 < k && col < n ? b[(size_t)(l + 1) * n + col] : 0.0f;
        for (int p = 0; p < 3; ++p, u = rest(u), v = rest(v)) pb[p] = pack(u, v);
        for (int order = 2; order >= 0; --order)
            for (int p = 0; p <= order; ++p) {
                float d[4];
                asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
                    : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                    : "r"(pa[p][0]), "r"(pa[p][1]), "r"(pb[order - p]), "f"(0.0f));
                for (int e = 0; e < 4; ++e) sum[e] += d[e];
            }
    }
    for (int e = 0; e < 4; ++e) {
        const int r = blockIdx.y * 16 + group + e / 2 * 8, at = blockIdx.x * 8 + 2 * quad + e % 2;
        if (r < m && at < n) c[(size_t)r * n + at] = sum[e];
    }
}
