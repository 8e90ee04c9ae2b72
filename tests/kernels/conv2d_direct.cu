// problem: conv2d
// style: one thread an output element, indexes by division, 64-bit
// assay: launch conv grid=(ceil_div(batch * out_channels * height * width, 256)) block=(256) args=(x, weight, y, batch, in_channels, out_channels, height, width)

__global__ void conv(const float* x, const float* weight, float* y, int batch, int in_channels, int out_channels,
                     int height, int width)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (long long)batch * out_channels * height * width) {
        return;
    }
    const int column = i % width;
    const int row = i / width % height;
    const int out = i / ((long long)width * height) % out_channels;
    const int image = i / ((long long)width * height * out_channels);
    float sum = 0.0f;
    for (int in = 0; in < in_channels; ++in) {
        for (int dr = -1; dr <= 1; ++dr) {
            for (int dc = -1; dc <= 1; ++dc) {
                const int r = row + dr, c = column + dc;
                if (r < 0 || r >= height || c < 0 || c >= width) {
                    continue;
                }
                sum += x[(((long long)image * in_channels + in) * height + r) * width + c] *
                       weight[(((long long)out * in_channels + in) * 3 + dr + 1) * 3 + dc + 1];
            }
        }
    }
    y[i] = sum;
}
