// problem: conv2d
// style: Winograd's F(2, 3) down the columns: a thread two rows of one column, filters transformed on the way
// assay: launch wino_down grid=(ceil_div(width, 32), ceil_div(height, 8), batch * out_channels) block=(32, 4) args=(x, weight, y, in_channels, out_channels, height, width)
__device__ float at(const float* image, int r, int c, int height, int width)
{
    return r >= 0 && r < height && c >= 0 && c < width ? image[(size_t)r * width + c] : 0.0f;
}

__global__ void wino_down(const float* x, const float* weight, float* y, int in_channels, int out_channels,
                          int height, int width)
{
    const int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y * 2;
    const int b = blockIdx.z / out_channels, o = blockIdx.z % out_channels;
    if (c >= width || r >= height) return;
    float m0 = 0.0f, m1 = 0.0f, m2 = 0.0f, m3 = 0.0f;
    for (int i = 0; i < in_channels; ++i) {
        const float* image = x + ((size_t)b * in_channels + i) * height * width;
        const float* g = weight + ((size_t)o * in_channels + i) * 9;
        for (int t = 0; t < 3; ++t) {
            const float d0 = at(image, r - 1, c + t - 1, height, width), d1 = at(image, r, c + t - 1, height, width);
            const float d2 = at(image, r + 1, c + t - 1, height, width), d3 = at(image, r + 2, c + t - 1, height, width);
            const float outer = 0.5f * (g[t] + g[6 + t]), middle = 0.5f * g[3 + t];
            m0 += (d0 - d2) * g[t];
            m1 += (d1 + d2) * (outer + middle);
            m2 += (d2 - d1) * (outer - middle);
            m3 += (d1 - d3) * g[6 + t];
        }
    }
    float* out = y + (size_t)blockIdx.z * height * width;
    out[(size_t)r * width + c] = m0 + m1 + m2;
    if (r + 1 < height) out[(size_t)(r + 1) * width + c] = m1 - m2 - m3;
}
