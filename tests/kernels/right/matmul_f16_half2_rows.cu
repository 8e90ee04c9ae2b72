// problem: matmul_f16
// assay: launch gemm_h2 grid=(ceil_div(n, 64), ceil_div(m, 8)) block=(32, 8) args=(a, b, c, m, n, k)
// style: __half2 loads of two columns, widened by __half22float2; where n is odd the two are loaded one by one
#include <cuda_fp16.h>

__device__ float2 pair_at(const __half* p, bool both, bool aligned)
{
    if (both && aligned) return __half22float2(*reinterpret_cast<const __half2*>(p));
    return make_float2(__half2float(p[0]), both ? __half2float(p[1]) : 0.0f);
}

__global__ void gemm_h2(const __half* __restrict__ a, const __half* __restrict__ b, __half* __restrict__ c, int m, int n, int k)
{
    const int row = blockIdx.y * 8 + threadIdx.y, col = (blockIdx.x * 32 + threadIdx.x) * 2;
    if (row >= m || col >= n) return;
    const bool both = col + 1 < n, aligned = n % 2 == 0;
    float2 s = {0.0f, 0.0f};
    for (int l = 0; l < k; ++l) {
        const float u = __half2float(__ldg(a + (size_t)row * k + l));
        const float2 v = pair_at(b + (size_t)l * n + col, both, aligned);
        s.x = fmaf(u, v.x, s.x);
        s.y = fmaf(u, v.y, s.y);
    }
    __half* to = c + (size_t)row * n + col;
    if (both && aligned) *reinterpret_cast<__half2*>(to) = __float22half2_rn(s);
    else {
        to[0] = __float2half(s.x);
        if (both) to[1] = __float2half(s.y);
    }
}
