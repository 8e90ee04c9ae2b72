// problem: softmax
// attack: rounds the exponentials to bfloat16
// expect: incorrect
// because: the probes hold values that differ below this precision
// assay: launch softmax grid=(rows) block=(32) args=(x, y, rows, cols)

#include <cuda_bf16.h>

__global__ void softmax(const float* x, float* y, int rows, int cols)
{
    const float* in = x + (size_t)blockIdx.x * cols;
    float top = in[0], sum = 0.0f;
    for (int c = 1; c < cols; ++c) top = fmaxf(top, in[c]);
    for (int c = 0; c < cols; ++c) sum += __bfloat162float(__float2bfloat16(expf(in[c] - top)));
    for (int c = threadIdx.x; c < cols; c += 32) y[(size_t)blockIdx.x * cols + c] = __bfloat162float(__float2bfloat16(expf(in[c] - top))) / sum;
}
