// problem: conv2d
// attack: rounds pixels and weights to TF32
// expect: incorrect
// because: the probes hold values that differ below this precision

__device__ float low(float v)
{
    return __uint_as_float((__float_as_uint(v) + 0x1000u) & 0xffffe000u);
}

__global__ void conv(const float* x, const float* weight, float* y, int batch, int in_channels, int out_channels,
                     int height, int width)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int area = height * width;
    if (i >= batch * out_channels * area) return;
    const int row = i / width % height, col = i % width, out = i / area % out_channels, image = i / (area * out_channels);
    float sum = 0.0f;
    for (int in = 0; in < in_channels; ++in) {
        for (int tap = 0; tap < 9; ++tap) {
            const int r = row + tap / 3 - 1, c = col + tap % 3 - 1;
            if (r < 0 || c < 0 || r >= height || c >= width) continue;
            sum += low(x[((image * in_channels + in) * height + r) * width + c]) *
                   low(weight[(out * in_channels + in) * 9 + tap]);
        }
    }
    y[i] = sum;
}
