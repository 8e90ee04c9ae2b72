// expected: incorrect
// It repeats the edge where zeros should be.
// assay: launch conv2d grid=(ceil_div(batch_size * out_channels * side * side, 128)) block=(128) args=(x, conv_weight, conv_bias, out, batch_size, in_channels, out_channels, side)

extern "C" __global__ void conv2d(
    const float* x, const float* conv_weight, const float* conv_bias, float* out, int batch_size,
    int in_channels, int out_channels, int side)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch_size * out_channels * side * side) return;
    int column = i % side, row = i / side % side, channel = i / (side * side) % out_channels;
    int image = i / (side * side * out_channels);
    float sum = conv_bias[channel];
    for (int from = 0; from < in_channels; ++from)
        for (int down = 0; down < 3; ++down)
            for (int right = 0; right < 3; ++right) {
                int y = row + down - 1, z = column + right - 1;
                y = min(max(y, 0), side - 1), z = min(max(z, 0), side - 1);
                sum += x[((image * in_channels + from) * side + y) * side + z] *
                       conv_weight[((channel * in_channels + from) * 3 + down) * 3 + right];
            }
    out[i] = sum;
}
