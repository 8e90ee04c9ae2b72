// expected: incorrect
// It leaves the bias out.
// assay: launch linear_relu grid=(ceil_div(out_features, 64), batch_size) block=(64) args=(x, linear_weight, linear_bias, out, batch_size, in_features, out_features)

extern "C" __global__ void linear_relu(
    const float* x, const float* linear_weight, const float* linear_bias, float* out, int batch_size,
    int in_features, int out_features)
{
    int row = blockIdx.y, column = blockIdx.x * 64 + threadIdx.x;
    if (column >= out_features) return;
    float sum = 0.0f;
    for (int i = 0; i < in_features; ++i)
        sum += x[row * in_features + i] * linear_weight[column * in_features + i];
    out[row * out_features + column] = fmaxf(sum, 0.0f);
}
