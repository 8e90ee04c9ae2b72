// problem: matmul_f16
// assay: launch hgemm_mma grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(32) args=(a, b, c, m, n, k)
// style: mma.m16n8k16 by registers gathered from global memory, two tiles side by side, packed half2 stores where aligned
#include <cuda_fp16.h>

__device__ unsigned two(const __half* base, int row, int rows, int col, int cols, int dr, int dc)
{
    const bool first = row < rows && col < cols, second = row + dr < rows && col + dc < cols;
    const __half lo = first ? base[(size_t)row * cols + col] : __ushort_as_half(0);
    const __half hi = second ? base[(size_t)(row + dr) * cols + col + dc] : __ushort_as_half(0);
    return (unsigned)__half_as_ushort(lo) | (unsigned)__half_as_ushort(hi) << 16;
}

__global__ void hgemm_mma(const __half* a, const __half* b, __half* c, int m, int n, int k)
{
    const int g = threadIdx.x >> 2, t = (threadIdx.x & 3) * 2, r0 = blockIdx.y * 16, c0 = blockIdx.x * 16;
    float d[2][4] = {};
    for (int l = 0; l < k; l += 16) {
        unsigned ra[4];
        ra[0] = two(a, r0 + g, m, l + t, k, 0, 1);
        ra[1] = two(a, r0 + g + 8, m, l + t, k, 0, 1);
        ra[2] = two(a, r0 + g, m, l + t + 8, k, 0, 1);
        ra[3] = two(a, r0 + g + 8, m, l + t + 8, k, 0, 1);
#pragma unroll
        for (int s = 0; s < 2; ++s) {
            const unsigned b0 = two(b, l + t, k, c0 + 8 * s + g, n, 1, 0), b1 = two(b, l + t + 8, k, c0 + 8 * s + g, n, 1, 0);
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                         : "+f"(d[s][0]), "+f"(d[s][1]), "+f"(d[s][2]), "+f"(d[s][3])
                         : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(b0), "r"(b1));
        }
    }
    for (int s = 0; s < 2; ++s)
        for (int h = 0; h < 2; ++h) {
            const int row = r0 + g + 8 * h, col = c0 + 8 * s + t;
            if (row >= m || col >= n) continue;
            __half* to = c + (size_t)row * n + col;
            if (n % 2 == 0) *reinterpret_cast<__half2*>(to) = __floats2half2_rn(d[s][2 * h], d[s][2 * h + 1]);
            else {
                to[0] = __float2half_rn(d[s][2 * h]);
                if (col + 1 < n) to[1] = __float2half_rn(d[s][2 * h + 1]);
            }
        }
}
