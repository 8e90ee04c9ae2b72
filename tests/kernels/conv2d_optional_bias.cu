// problem: conv2d
// style: an optional bias, as in wrappers of libraries: the plan passes 0, a null pointer
// assay: launch convolve grid=(ceil_div(width, 32), height, batch * out_channels) block=(32) args=(x, weight, 0, y, in_channels, out_channels, height, width)

__global__ void convolve(
    const float* x, const float* weight, const float* bias, float* y, int in_channels, int out_channels, int height,
    int width)
{
    const int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    const int image = blockIdx.z / out_channels, out_channel = blockIdx.z % out_channels;
    if (col >= width) {
        return;
    }
    float sum = bias != nullptr ? bias[out_channel] : 0.0f;
    for (int channel = 0; channel < in_channels; channel++) {
        const float* plane = x + (size_t)(image * in_channels + channel) * height * width;
        const float* taps = weight + (out_channel * in_channels + channel) * 9;
        for (int tap = 0; tap < 9; tap++) {
            const int from_row = row + tap / 3 - 1, from_col = col + tap % 3 - 1;
            if (from_row >= 0 && from_row < height && from_col >= 0 && from_col < width) {
                sum += plane[from_row * width + from_col] * taps[tap];
            }
        }
    }
    y[((size_t)blockIdx.z * height + row) * width + col] = sum;
}
