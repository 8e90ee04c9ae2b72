// problem: matmul_f16
// style: a warp a row; each lane fetches one half of the row and shuffles it to all the others
// assay: launch matmul_shuffled grid=(ceil_div(n, 32), ceil_div(m, 4)) block=(32, 4) args=(a, b, c, m, n, k)

#include <cuda_fp16.h>

__global__ void matmul_shuffled(const __half* a, const __half* b, __half* c, int m, int n, int k)
{
    const int row = blockIdx.y * 4 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    if (row >= m) {
        return;  // the whole warp
    }
    float sum = 0.0f;
    for (int start = 0; start < k; start += 32) {
        const int mine = start + threadIdx.x;
        const __half piece = mine < k ? a[(size_t)row * k + mine] : __float2half(0.0f);
        for (int lane = 0; lane < 32 && start + lane < k; ++lane) {
            const __half factor = __shfl_sync(0xffffffffu, piece, lane);
            if (col < n) {
                sum += __half2float(factor) * __half2float(b[(size_t)(start + lane) * n + col]);
            }
        }
    }
    if (col < n) {
        c[(size_t)row * n + col] = __float2half(sum);
    }
}
