// problem: conv2d
// style: each channel's 3 x 3 sum in float32, channels added in double; four outputs of a column a thread
// assay: launch conv_mixed grid=(ceil_div(width, 64), ceil_div(height, 4), batch * out_channels) block=(64) args=(x, weight, y, in_channels, out_channels, height, width)
__global__ void conv_mixed(const float* x, const float* weight, float* y, int in_channels, int out_channels,
                           int height, int width)
{
    const int c = blockIdx.x * 64 + threadIdx.x, first = blockIdx.y * 4;
    const int b = blockIdx.z / out_channels, o = blockIdx.z % out_channels;
    if (c >= width) return;
    double sum[4] = {};
    for (int i = 0; i < in_channels; ++i) {
        const float* image = x + ((size_t)b * in_channels + i) * height * width;
        const float* w = weight + ((size_t)o * in_channels + i) * 9;
        for (int q = 0; q < 4; ++q) {
            float v = 0.0f;
            for (int s = 0; s < 3; ++s)
                for (int t = 0; t < 3; ++t) {
                    const int row = first + q + s - 1, col = c + t - 1;
                    if (row >= 0 && row < height && col >= 0 && col < width)
                        v += image[(size_t)row * width + col] * w[3 * s + t];
                }
            sum[q] += v;
        }
    }
    for (int q = 0; q < 4 && first + q < height; ++q)
        y[((size_t)blockIdx.z * height + first + q) * width + c] = (float)sum[q];
}
