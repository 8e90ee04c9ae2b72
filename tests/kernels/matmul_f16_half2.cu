// problem: matmul_f16
// style: tiles of half in shared memory, two columns a thread with half2 and float2
// assay: launch matmul_half2 grid=(ceil_div(n, 32), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)

#include <cuda_fp16.h>

__global__ void matmul_half2(const half* __restrict__ a, const half* __restrict__ b, half* __restrict__ c, int m, int n,
                             int k)
{
    __shared__ half as[16][16];
    __shared__ half2 bs[16][16];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * 16 + ty, col = (blockIdx.x * 16 + tx) * 2;
    const half zero = __ushort_as_half(0);
    float2 sum = make_float2(0.0f, 0.0f);
    for (int start = 0; start < k; start += 16) {
        as[ty][tx] = row < m && start + tx < k ? a[(size_t)row * k + start + tx] : zero;
        const half* from = b + (size_t)(start + ty) * n + col;
        const bool there = start + ty < k;
        bs[ty][tx] = __halves2half2(there && col < n ? from[0] : zero, there && col + 1 < n ? from[1] : zero);
        __syncthreads();
        for (int i = 0; i < 16; ++i) {
            const float p = __half2float(as[ty][i]);
            const float2 q = __half22float2(bs[i][tx]);
            sum.x = fmaf(p, q.x, sum.x);
            sum.y = fmaf(p, q.y, sum.y);
        }
        __syncthreads();
    }
    if (row < m && col < n) {
        c[(size_t)row * n + col] = __float2half_rn(sum.x);
        if (col + 1 < n) {
            c[(size_t)row * n + col + 1] = __float2half_rn(sum.y);
        }
    }
}
