// problem: matmul
// assay: launch matmul_tf32x6 grid=(ceil_div(n, 8), ceil_div(m, 16)) block=(32) args=(a, b, c, m, n, k)
// style: each float32 as three tf32 (11 + 11 + 2 bits, exact); six mma.m16n8k8 products are enough for 24 bits
__device__ void split(float v, unsigned (&part)[3])
{
    for (int i = 0; i < 3; ++i) {
        part[i] = __float_as_uint(v) & 0xffffe000u;
        v -= __uint_as_float(part[i]);
    }
}

__device__ void mma(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__global__ void matmul_tf32x6(const float* a, const float* b, float* c, int m, int n, int k)
{
    const int g = threadIdx.x / 4, t = threadIdx.x % 4, r0 = blockIdx.y * 16, c0 = blockIdx.x * 8;
    float sum[4] = {};
    for (int l0 = 0; l0 < k; l0 += 8) {
        unsigned u[4][3], v[2][3];
        for (int i = 0; i < 4; ++i) {
            const int row = r0 + g + i % 2 * 8, l = l0 + t + i / 2 * 4;
            split(row < m && l < k ? a[(size_t)row * k + l] : 0.0f, u[i]);
        }
        for (int i = 0; i < 2; ++i) {
            const int l = l0 + t + i * 4;
            split(l < k && c0 + g < n ? b[(size_t)l * n + c0 + g] : 0.0f, v[i]);
        }
        float part[4] = {};
        constexpr int left[6] = {2, 0, 1, 1, 0, 0}, right[6] = {0, 2, 1, 0, 1, 0};
#pragma unroll
        for (int p = 0; p < 6; ++p) {
            const int i = left[p], j = right[p];
            mma(part, u[0][i], u[1][i], u[2][i], u[3][i], v[0][j], v[1][j]);
        }
        for (int i = 0; i < 4; ++i) sum[i] += part[i];
    }
    for (int i = 0; i < 4; ++i) {
        const int row = r0 + g + i / 2 * 8, col = c0 + t * 2 + i % 2;
        if (row < m && col < n) c[(size_t)row * n + col] = sum[i];
    }
}
