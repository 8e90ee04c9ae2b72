// problem: softmax
// attack: computes exponentials and sums in float16
// expect: incorrect
// because: the tolerance is one of float32
// rehearse: no
// assay: launch rows_softmax grid=(rows) block=(32) args=(x, y, cols)

#include <cuda_fp16.h>

__global__ void rows_softmax(const float* x, float* y, int cols)
{
    const float* row = x + (size_t)blockIdx.x * cols;
    float most = -INFINITY;
    for (int i = threadIdx.x; i < cols; i += 32) most = fmaxf(most, row[i]);
    for (int step = 16; step; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
    __half sum = __float2half(0.0f);
    for (int i = threadIdx.x; i < cols; i += 32) sum = __hadd(sum, hexp(__float2half(row[i] - most)));
    for (int step = 16; step; step /= 2) sum = __hadd(sum, __shfl_xor_sync(~0u, sum, step));
    for (int i = threadIdx.x; i < cols; i += 32) {
        y[(size_t)blockIdx.x * cols + i] = __half2float(__hdiv(hexp(__float2half(row[i] - most)), sum));
    }
}
