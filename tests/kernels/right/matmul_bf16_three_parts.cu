// problem: matmul
// assay: launch matmul_bf16x9 grid=(ceil_div(n, 8), ceil_div(m, 16)) block=(32) args=(a, b, c, m, n, k)
// style: each float32 as three bfloat16 whose sum is exact; nine mma.m16n8k8 keep all 24 bits, short sums are added in float32
#include <cuda_bf16.h>

struct three {
    float part[3];
};

__device__ three split(float v)
{
    three t;
    for (int i = 0; i < 3; ++i) {
        t.part[i] = __bfloat162float(__float2bfloat16_rz(v));
        v -= t.part[i];                               // exact
    }
    return t;
}

__device__ unsigned pack(float low, float high)
{
    return __float_as_uint(low) >> 16 | (__float_as_uint(high) & 0xffff0000u);
}

__device__ void mma(float (&d)[4], const unsigned (&a)[2], unsigned b)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(b));
}

__global__ void matmul_bf16x9(const float* a, const float* b, float* c, int m, int n, int k)
{
    const int lane = threadIdx.x, group = lane / 4, in = lane % 4;
    const int r0 = blockIdx.y * 16, c0 = blockIdx.x * 8;
    float sum[4] = {};
    for (int l0 = 0; l0 < k; l0 += 8) {
        three left[2][2], right[2];
        for (int j = 0; j < 2; ++j) {
            const int l = l0 + in * 2 + j;
            for (int h = 0; h < 2; ++h) {
                const int row = r0 + group + 8 * h;
                left[h][j] = split(row < m && l < k ? a[(size_t)row * k + l] : 0.0f);
            }
            right[j] = split(l < k && c0 + group < n ? b[(size_t)l * n + c0 + group] : 0.0f);
        }
        float part[4] = {};                          // a short sum of its own: the tensor core truncates
        for (int order = 4; order >= 0; --order) {
            for (int i = 0; i < 3; ++i) {
                const int j = order - i;
                if (j < 0 || j > 2) continue;
                const unsigned u[2] = {pack(left[0][0].part[i], left[0][1].part[i]), pack(left[1][0].part[i], left[1][1].part[i])};
                mma(part, u, pack(right[0].part[j], right[1].part[j]));
            }
        }
        for (int i = 0; i < 4; ++i) sum[i] += part[i];
    }
    for (int i = 0; i < 4; ++i) {
        const int row = r0 + group + i / 2 * 8, col = c0 + in * 2 + i % 2;
        if (row < m && col < n) c[(size_t)row * n + col] = sum[i];
    }
}
