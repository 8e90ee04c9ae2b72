// problem: softmax
// attack: rounds the inputs to float16
// expect: incorrect
// because: the probes hold values that differ below this precision
// assay: launch softmax grid=(rows) block=(32) args=(x, y, rows, cols)

#include <cuda_fp16.h>

__global__ void softmax(const float* x, float* y, int rows, int cols)
{
    const float* in = x + (size_t)blockIdx.x * cols;
    float top = in[0], sum = 0.0f;
    for (int c = 1; c < cols; ++c) top = fmaxf(top, in[c]);
    for (int c = 0; c < cols; ++c) sum += expf(__half2float(__float2half(in[c])) - __half2float(__float2half(top)));
    for (int c = threadIdx.x; c < cols; c += 32) y[(size_t)blockIdx.x * cols + c] = expf(__half2float(__float2half(in[c])) - __half2float(__float2half(top))) / sum;
}
