// problem: matmul_f16
// assay: launch gemm_dot grid=(ceil_div(m * n, 8)) block=(256) args=(a, b, c, m, n, k)
// style: a warp an element: lanes over k, pairs exchanged by shfl, the result stored by lane zero
#include <cuda_fp16.h>

__global__ void gemm_dot(const __half* a, const __half* b, __half* c, int m, int n, int k)
{
    const int e = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (e >= m * n) return;
    const int row = e / n, col = e - row * n;
    float s = 0.0f;
    for (int l = lane; l < k; l += 32) s += __half2float(a[(long long)row * k + l]) * __half2float(b[(long long)l * n + col]);
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);
    if (lane == 0) c[e] = __float2half(s);
}
