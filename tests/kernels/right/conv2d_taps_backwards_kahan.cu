// problem: conv2d
// style: from the last channel and tap to the first, Kahan's compensation, borders by a product with 0 or 1 left out, --fmad=false
// flags: --fmad=false
// assay: launch conv_kahan grid=(ceil_div(height * width, 128), batch * out_channels) block=(128) args=(x, weight, y, in_channels, out_channels, height, width)
__global__ void conv_kahan(const float* x, const float* weight, float* y, int in_channels, int out_channels,
                           int height, int width)
{
    const int p = blockIdx.x * 128 + threadIdx.x, r = p / width, c = p % width;
    const int b = blockIdx.y / out_channels, o = blockIdx.y % out_channels;
    if (p >= height * width) return;
    float sum = 0.0f, lost = 0.0f;
    for (int i = in_channels - 1; i >= 0; --i)
        for (int tap = 8; tap >= 0; --tap) {
            const int s = r + tap / 3 - 1, t = c + tap % 3 - 1;
            if (s < 0 || s >= height || t < 0 || t >= width) continue;
            const float v = x[(((size_t)b * in_channels + i) * height + s) * width + t] *
                                weight[((size_t)o * in_channels + i) * 9 + tap] - lost;
            const float next = sum + v;
            lost = (next - sum) - v;
            sum = next;
        }
    y[(size_t)blockIdx.y * height * width + p] = sum;
}
