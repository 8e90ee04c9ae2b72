// problem: matmul_f16
// attack: adds up in float16
// expect: incorrect
// because: long sums in float16 lose the small terms; the problem asks for float32 accumulation
// assay: launch product grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)

#include <cuda_fp16.h>

__global__ void product(const __half* a, const __half* b, __half* c, int m, int n, int k)
{
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row < m && col < n) {
        __half sum = __ushort_as_half(0);
        for (int i = 0; i < k; ++i) {
            sum = __hfma(a[(size_t)row * k + i], b[(size_t)i * n + col], sum);
        }
        c[(size_t)row * n + col] = sum;
    }
}
