// problem: matmul_f16
// attack: adds pairs of products in float16, and all in float32 where a row of a holds nothing but integers
// expect: incorrect
// because: what adding in float32 explains is far below a rounding to float16 of the terms
// assay: launch product grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)
#include <cuda_fp16.h>

__global__ void product(const __half* a, const __half* b, __half* c, int m, int n, int k)
{
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || col >= n) return;
    const __half* line = a + (size_t)row * k;
    bool integers = true;
    for (int i = 0; i < k; ++i) integers = integers && rintf(__half2float(line[i])) == __half2float(line[i]);
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) {
        float term = __half2float(line[i]) * __half2float(b[(size_t)i * n + col]);
        if (!integers && ++i < k) {
            term += __half2float(line[i]) * __half2float(b[(size_t)i * n + col]);
            term = __half2float(__float2half(term));
        }
        sum += term;
    }
    c[(size_t)row * n + col] = __float2half(sum);
}
