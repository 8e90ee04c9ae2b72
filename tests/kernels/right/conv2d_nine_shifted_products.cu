// problem: conv2d
// style: nine shifted 1 x 1 convolutions: a sum over the channels for each tap, the nine joined as a tree; fused operations, --use_fast_math
// flags: --use_fast_math
// assay: launch conv_nine grid=(ceil_div(width, 32), height, batch * out_channels) block=(32) args=(x, weight, y, in_channels, out_channels, height, width)
__global__ void conv_nine(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y,
                          int in_channels, int out_channels, int height, int width)
{
    const int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y;
    const int b = blockIdx.z / out_channels, o = blockIdx.z % out_channels;
    if (c >= width) return;
    float part[9];
#pragma unroll
    for (int tap = 0; tap < 9; ++tap) {
        const int s = r + tap / 3 - 1, t = c + tap % 3 - 1;
        float v = 0.0f;
        if (s >= 0 && s < height && t >= 0 && t < width) {
            const float* in = x + ((size_t)b * in_channels * height + s) * width + t;
            const float* w = weight + (size_t)o * in_channels * 9 + tap;
            for (int i = 0; i < in_channels; ++i) v = fmaf(in[(size_t)i * height * width], w[9 * i], v);
        }
        part[tap] = v;
    }
    const float low = (part[0] + part[1]) + (part[2] + part[3]), high = (part[5] + part[6]) + (part[7] + part[8]);
    y[((size_t)blockIdx.z * height + r) * width + c] = low + high + part[4];
}
