// problem: conv2d
// attack: reads the neighbouring row where the border should be zero
// expect: incorrect|runtime_error
// because: borders are compared like everything else; the first pixel reads before the image

__global__ void conv(const float* x, const float* weight, float* y, int batch, int in_channels, int out_channels,
                     int height, int width)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int area = height * width, count = batch * in_channels * area;
    if (i >= batch * out_channels * area) return;
    const int pixel = i % area, out = i / area % out_channels, image = i / (area * out_channels);
    float sum = 0.0f;
    for (int in = 0; in < in_channels; ++in) {
        for (int tap = 0; tap < 9; ++tap) {
            const int at = (image * in_channels + in) * area + pixel + (tap / 3 - 1) * width + tap % 3 - 1;
            if (at >= 0 && at < count) sum += x[at] * weight[(out * in_channels + in) * 9 + tap];
        }
    }
    y[i] = sum;
}
