// problem: conv2d
// assay: launch conv_slide grid=(ceil_div(width, 64) * ceil_div(height, 8), batch * out_channels) block=(64) args=(x, weight, y, in_channels, out_channels, height, width)
// style: a thread walks down eight rows of one column; three rows of three values rotate through registers
__global__ void __launch_bounds__(64) conv_slide(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, int C, int K, int H, int W)
{
    const int across = (W + 63) / 64;
    const int c = blockIdx.x % across * 64 + threadIdx.x, r0 = blockIdx.x / across * 8;
    const int b = blockIdx.y / K, o = blockIdx.y % K;
    if (c >= W) return;
    float sum[8] = {0.f};
    for (int i = 0; i < C; ++i) {
        const float* p = x + ((size_t)b * C + i) * H * W;
        const float* g = weight + ((size_t)o * C + i) * 9;
        float w[9];
#pragma unroll
        for (int t = 0; t < 9; ++t) w[t] = __ldg(g + t);
        auto row = [&](int r, float (&v)[3]) {
            const bool inside = r >= 0 && r < H;
            v[0] = inside && c > 0 ? p[(size_t)r * W + c - 1] : 0.f;
            v[1] = inside ? p[(size_t)r * W + c] : 0.f;
            v[2] = inside && c + 1 < W ? p[(size_t)r * W + c + 1] : 0.f;
        };
        float above[3], here[3], below[3];
        row(r0 - 1, above);
        row(r0, here);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            row(r0 + k + 1, below);
#pragma unroll
            for (int j = 0; j < 3; ++j) {
                sum[k] += above[j] * w[j] + here[j] * w[3 + j] + below[j] * w[6 + j];
                above[j] = here[j];
                here[j] = below[j];
            }
        }
    }
    for (int k = 0; k < 8 && r0 + k < H; ++k) y[((size_t)blockIdx.y * H + r0 + k) * W + c] = sum[k];
}
