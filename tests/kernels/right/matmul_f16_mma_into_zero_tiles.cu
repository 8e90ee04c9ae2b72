// problem: matmul_f16
// style: mma.m16n8k8 with float32 results into zeros, added outside in four accumulators that take turns; fragments from global memory
// assay: launch h_mma8 grid=(ceil_div(n, 8), ceil_div(m, 16)) block=(32) args=(a, b, c, m, n, k)
#include <cuda_fp16.h>

__device__ unsigned pair(__half low, __half high) { return __half_as_ushort(low) | __half_as_ushort(high) << 16; }

__global__ void h_mma8(const __half* a, const __half* b, __half* c, int m, int n, int k)
{
    const int group = threadIdx.x / 4, quad = threadIdx.x % 4;
    const int row = blockIdx.y * 16 + group, col = blockIdx.x * 8 + group;
    const __half zero = __ushort_as_half(0);
    float sum[4][4] = {};
    int turn = 0;
    for (int first = 0; first < k; first += 8, turn = (turn + 1) % 4) {
        const int l = first + 2 * quad;
        unsigned ra[2], rb;
        for (int e = 0; e < 2; ++e) {
            const int r = row + 8 * e;
            ra[e] = pair(r < m && l < k ? a[(size_t)r * k + l] : zero, r < m && l + 1 < k ? a[(size_t)r * k + l + 1] : zero);
        }
        rb = pair(l < k && col < n ? b[(size_t)l * n + col] : zero, l + 1 < k && col < n ? b[(size_t)(l + 1) * n + col] : zero);
        float d[4];
        asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
            : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
            : "r"(ra[0]), "r"(ra[1]), "r"(rb), "f"(0.0f));
        for (int t = 0; t < 4; ++t)
            for (int e = 0; e < 4; ++e)
                if (t == turn) sum[t][e] += d[e];
    }
    for (int e = 0; e < 4; ++e) {
        const int r = row + e / 2 * 8, at = blockIdx.x * 8 + 2 * quad + e % 2;
        if (r < m && at < n)
            c[(size_t)r * n + at] = __float2half((sum[0][e] + sum[1][e]) + (sum[2][e] + sum[3][e]));
    }
}
