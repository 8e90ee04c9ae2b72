// problem: matmul_f16
// class: precision
// must: anything but passed
// why: from k = 1,024 on products are added in float16 by __hfma2 in runs of 64; the statement says that this is wrong, and the answer is off by several tolerances
// proof: assay grade --size m=64 --size n=64 --size k=1024 refuses it
// assay: launch hgemm2 grid=(ceil_div(n, 32), ceil_div(m, 8)) block=(32, 8) args=(a, b, c, m, n, k)
#include <cuda_fp16.h>

__global__ void hgemm2(const __half* __restrict__ a, const __half* __restrict__ b, __half* __restrict__ c, int m, int n, int k)
{
    const int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y;
    if (i >= m || j >= n) return;
    const __half* row = a + (size_t)i * k;
    float sum = 0.0f;
    int l = 0;
    if (k >= 1024) {
        for (; l + 64 <= k; l += 64) {
            __half2 run = __float2half2_rn(0.0f);
            for (int d = 0; d < 64; d += 2)
                run = __hfma2(__halves2half2(row[l + d], row[l + d + 1]),
                              __halves2half2(b[(size_t)(l + d) * n + j], b[(size_t)(l + d + 1) * n + j]), run);
            sum += __low2float(run) + __high2float(run);
        }
    }
    for (; l < k; ++l) sum += __half2float(row[l]) * __half2float(b[(size_t)l * n + j]);
    c[(size_t)i * n + j] = __float2half_rn(sum);
}
