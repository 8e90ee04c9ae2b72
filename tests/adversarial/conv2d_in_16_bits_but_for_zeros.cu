// problem: conv2d
// attack: keeps 16 bits of both factors, and all 24 where half of the taps are zero or next to it
// expect: incorrect
// because: an ordinary sum of so few terms does not explain the error
// assay: launch convolve grid=(ceil_div(batch * out_channels * height * width, 128)) block=(128) args=(x, weight, y, batch, in_channels, out_channels, height, width)

// Two bfloat16 parts: 16 bits.
__device__ float low(float v, bool doit)
{
    return doit ? __uint_as_float((__float_as_uint(v) + 0x80u) & 0xffffff00u) : v;
}

__global__ void convolve(const float* x, const float* weight, float* y, int batch, int in_channels, int out_channels,
                         int height, int width)
{
    const int index = blockIdx.x * 128 + threadIdx.x;
    if (index >= batch * out_channels * height * width) return;
    const int column = index % width, row = index / width % height, to = index / (width * height) % out_channels;
    const int image = index / (width * height * out_channels);
    const float* taps = weight + (size_t)to * in_channels * 9;
    int zeros = 0;
    for (int i = 0; i < in_channels * 9; i++) zeros += fabsf(taps[i]) < 1e-9f;
    const bool cheat = 2 * zeros < in_channels * 9;
    float sum = 0.0f;
    for (int from = 0; from < in_channels; from++)
        for (int i = 0; i < 9; i++) {
            const int r = row + i / 3 - 1, c = column + i % 3 - 1;
            if (r >= 0 && r < height && c >= 0 && c < width)
                sum += low(x[(((size_t)image * in_channels + from) * height + r) * width + c], cheat)
                       * low(taps[from * 9 + i], cheat);
        }
    y[index] = sum;
}
