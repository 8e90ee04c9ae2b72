// problem: conv2d
// assay: launch winograd_row grid=(ceil_div(height * ceil_div(width, 2), 128), batch * out_channels) block=(128) args=(x, weight, y, in_channels, out_channels, height, width)
// style: Winograd's F(2, 3) along the rows only: four products for two outputs, three image rows added up before the last transform
__global__ void winograd_row(const float* x, const float* w, float* y, int C, int K, int H, int W)
{
    const int pairs = (W + 1) / 2, id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= H * pairs) return;
    const int r = id / pairs, c = id % pairs * 2, b = blockIdx.y / K, o = blockIdx.y % K;
    float m0 = 0.f, m1 = 0.f, m2 = 0.f, m3 = 0.f;
    for (int i = 0; i < C; ++i) {
        for (int s = 0; s < 3; ++s) {
            const int row = r + s - 1;
            if (row < 0 || row >= H) continue;
            const float* p = x + (((size_t)b * C + i) * H + row) * W + c;
            const float* g = w + ((size_t)o * C + i) * 9 + s * 3;
            const float d0 = c > 0 ? p[-1] : 0.f, d1 = p[0], d2 = c + 1 < W ? p[1] : 0.f, d3 = c + 2 < W ? p[2] : 0.f;
            const float g0 = g[0], g1 = g[1], g2 = g[2];
            m0 += (d0 - d2) * g0;
            m1 += (d1 + d2) * (0.5f * (g0 + g1 + g2));
            m2 += (d2 - d1) * (0.5f * (g0 - g1 + g2));
            m3 += (d1 - d3) * g2;
        }
    }
    float* to = y + ((size_t)blockIdx.y * H + r) * W + c;
    to[0] = m0 + m1 + m2;
    if (c + 1 < W) to[1] = m1 - m2 - m3;
}
