// problem: conv2d
// assay: launch conv_borders grid=(ceil_div(height * width, 192), batch * out_channels) block=(192) args=(x, weight, y, in_channels, out_channels, height, width)
// style: inner pixels and border pixels by two functions through a table of pointers; lanes of a warp go both ways
using pixel_function = float (*)(const float* plane, const float* g, int r, int c, int H, int W);

__device__ float inner(const float* p, const float* g, int r, int c, int, int W)
{
    p += (size_t)(r - 1) * W + c - 1;
    return p[0] * g[0] + p[1] * g[1] + p[2] * g[2] + p[W] * g[3] + p[W + 1] * g[4] + p[W + 2] * g[5] + p[2 * W] * g[6] +
           p[2 * W + 1] * g[7] + p[2 * W + 2] * g[8];
}

__device__ float border(const float* p, const float* g, int r, int c, int H, int W)
{
    float s = 0.0f;
    for (int i = max(0, r - 1); i <= min(H - 1, r + 1); ++i)
        for (int j = max(0, c - 1); j <= min(W - 1, c + 1); ++j) s += p[(size_t)i * W + j] * g[(i - r + 1) * 3 + j - c + 1];
    return s;
}

__device__ const pixel_function table[2] = {border, inner};

__global__ void conv_borders(const float* x, const float* weight, float* y, int C, int K, int H, int W)
{
    const int pixel = blockIdx.x * 192 + threadIdx.x;
    if (pixel >= H * W) return;
    const int r = pixel / W, c = pixel % W, b = blockIdx.y / K, o = blockIdx.y % K;
    const pixel_function f = table[r > 0 && c > 0 && r < H - 1 && c < W - 1];
    float s = 0.0f;
    for (int i = 0; i < C; ++i) s += f(x + ((size_t)b * C + i) * H * W, weight + ((size_t)o * C + i) * 9, r, c, H, W);
    y[(size_t)blockIdx.y * H * W + pixel] = s;
}
