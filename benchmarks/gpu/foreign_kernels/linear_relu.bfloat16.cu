// expected: incorrect
// Operands rounded to bfloat16.
// assay: launch linear_relu grid=(ceil_div(out_features, 64), batch_size) block=(64) args=(x, linear_weight, linear_bias, out, batch_size, in_features, out_features)

#include <cuda_bf16.h>

extern "C" __global__ void linear_relu(
    const float* x, const float* linear_weight, const float* linear_bias, float* out, int batch_size,
    int in_features, int out_features)
{
    int row = blockIdx.y, column = blockIdx.x * 64 + threadIdx.x;
    if (column >= out_features) return;
    float sum = linear_bias[column];
    for (int i = 0; i < in_features; ++i)
        sum += __bfloat162float(__float2bfloat16(x[row * in_features + i])) *
               __bfloat162float(__float2bfloat16(linear_weight[column * in_features + i]));
    out[row * out_features + column] = fmaxf(sum, 0.0f);
}
