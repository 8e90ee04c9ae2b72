// problem: matmul_f16
// assay: launch mm grid=(ceil_div(n, 8), ceil_div(m, 8)) block=(128) args=(a, b, c, m, n, k)
// style: two groups of 64 threads split the depth; the second leaves its sums and arrives (barrier.cta.arrive), the first syncs and adds
#include <cuda_fp16.h>

__global__ void mm(const __half* a, const __half* b, __half* c, int m, int n, int k)
{
    __shared__ float left[64];
    const int g = threadIdx.x >> 6, t = threadIdx.x & 63;
    const int row = blockIdx.y * 8 + (t >> 3), col = blockIdx.x * 8 + (t & 7);
    const bool here = row < m && col < n;
    float s = 0.0f;
    if (here)
        for (int l = g; l < k; l += 2) s = fmaf(__half2float(a[(size_t)row * k + l]), __half2float(b[(size_t)l * n + col]), s);
    if (g) {
        left[t] = s;
        asm volatile("barrier.cta.arrive 3, 128;" ::: "memory");
    } else {
        asm volatile("barrier.cta.sync 3, 128;" ::: "memory");
        if (here) c[(size_t)row * n + col] = __float2half(s + left[t]);
    }
}
