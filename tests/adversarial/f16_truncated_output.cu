// problem: matmul_f16
// attack: cuts the sum off instead of rounding, to seven bits of mantissa
// expect: incorrect
// because: the output has ten bits of mantissa
// assay: launch product grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)

#include <cuda_fp16.h>

__global__ void product(const __half* a, const __half* b, __half* c, int m, int n, int k)
{
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row < m && col < n) {
        float sum = 0.0f;
        for (int i = 0; i < k; ++i) {
            sum += __half2float(a[(size_t)row * k + i]) * __half2float(b[(size_t)i * n + col]);
        }
        c[(size_t)row * n + col] = __float2half(__uint_as_float(__float_as_uint(sum) & 0xffff0000u));
    }
}
