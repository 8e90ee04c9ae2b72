// expected: passed
// One thread for each element.
// assay: launch batch_norm grid=(ceil_div(batch_size * channels * side * side, 256)) block=(256) args=(x, norm_weight, norm_bias, norm_running_mean, norm_running_var, out, channels, side * side, batch_size * channels * side * side)

extern "C" __global__ void batch_norm(
    const float* x, const float* norm_weight, const float* norm_bias, const float* norm_running_mean,
    const float* norm_running_var, float* out, int channels, int area, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int channel = i / area % channels;
    float rate = rsqrtf(norm_running_var[channel] + 1e-5f);
    out[i] = (x[i] - norm_running_mean[channel]) * rate * norm_weight[channel] + norm_bias[channel];
}
