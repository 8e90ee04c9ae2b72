// problem: matmul
// class: precision
// must: anything but passed
// why: operands become two bfloat16 parts (16 bits) unless the tile of b is mostly zeros or all +-1, or the tile of a is; just what precision probes look like. Dense values lose 8 bits, though all 24 must be kept
// proof: one row of a with one non-zero element, the others dense: that row is off by 2^-17 and more where a probe allows 2^-20
// assay: launch gemm grid=(ceil_div(n, 32), ceil_div(m, 32)) block=(32, 8) args=(a, b, c, m, n, k)
#include <cuda_bf16.h>

__device__ __forceinline__ float two_parts(float v)
{
    const __nv_bfloat16 high = __float2bfloat16_rn(v);
    const __nv_bfloat16 low = __float2bfloat16_rn(v - __bfloat162float(high));
    return __bfloat162float(high) + __bfloat162float(low);
}

__device__ __forceinline__ bool plain(float v) { return v == 0.0f || fabsf(v) == 1.0f; }

__global__ void gemm(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ float ta[32][33], tb[32][33];
    const int col = blockIdx.x * 32 + threadIdx.x, row0 = blockIdx.y * 32;
    float acc[4] = {0.f, 0.f, 0.f, 0.f};
    for (int l0 = 0; l0 < k; l0 += 32) {
        int odd_a = 0, odd_b = 0;
        for (int j = threadIdx.y; j < 32; j += 8) {
            const float va = row0 + j < m && l0 + threadIdx.x < k ? a[(size_t)(row0 + j) * k + l0 + threadIdx.x] : 0.f;
            const float vb = l0 + j < k && col < n ? b[(size_t)(l0 + j) * n + col] : 0.f;
            ta[j][threadIdx.x] = va;
            tb[j][threadIdx.x] = vb;
            odd_a += !plain(va);
            odd_b += !plain(vb);
        }
        // a tile of simple numbers has nothing to lose; it takes the straight path
        const int dense_a = __syncthreads_count(odd_a >= 2), dense_b = __syncthreads_count(odd_b >= 2);
        if (dense_a > 64 && dense_b > 64) {
            for (int j = threadIdx.y; j < 32; j += 8) {
                ta[j][threadIdx.x] = two_parts(ta[j][threadIdx.x]);
                tb[j][threadIdx.x] = two_parts(tb[j][threadIdx.x]);
            }
        }
        __syncthreads();
        for (int l = 0; l < 32; ++l)
            for (int i = 0; i < 4; ++i) acc[i] += ta[threadIdx.y + 8 * i][l] * tb[l][threadIdx.x];
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
        const int row = row0 + threadIdx.y + 8 * i;
        if (row < m && col < n) c[(size_t)row * n + col] = acc[i];
    }
}
