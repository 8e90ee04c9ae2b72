// problem: matmul_f16
// style: float32 products of __half2 pairs with Kahan's compensation, from the last pair to the first; rounded once
// assay: launch h_kahan grid=(ceil_div(n, 32), ceil_div(m, 4)) block=(32, 4) args=(a, b, c, m, n, k)
#include <cuda_fp16.h>

__global__ void h_kahan(const __half* a, const __half* b, __half* c, int m, int n, int k)
{
    const int row = blockIdx.y * 4 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    if (row >= m || col >= n) return;
    float sum = 0.0f, lost = 0.0f;
    for (int l = k - 1; l >= 0; --l) {
        const float v = __half2float(a[(size_t)row * k + l]) * __half2float(b[(size_t)l * n + col]) - lost;
        const float next = sum + v;
        lost = (next - sum) - v;
        sum = next;
    }
    c[(size_t)row * n + col] = __float2half_rn(sum);
}
