// problem: conv2d
// assay: temp U float32 (out_channels, in_channels, 16)
// assay: launch transform_filters grid=(ceil_div(out_channels * in_channels, 128)) block=(128) args=(weight, U, out_channels * in_channels)
// assay: launch winograd grid=(ceil_div(ceil_div(height, 2) * ceil_div(width, 2), 64), batch * out_channels) block=(64) args=(x, U, y, in_channels, out_channels, height, width)
// style: Winograd's F(2x2, 3x3): filters transformed once into a temporary, a thread a tile of 2 x 2 outputs
__global__ void transform_filters(const float* w, float* U, int count)
{
    const int f = blockIdx.x * blockDim.x + threadIdx.x;
    if (f >= count) return;
    const float* g = w + (size_t)f * 9;
    float t[4][3];
    for (int j = 0; j < 3; ++j) {
        t[0][j] = g[j];
        t[1][j] = 0.5f * (g[j] + g[3 + j] + g[6 + j]);
        t[2][j] = 0.5f * (g[j] - g[3 + j] + g[6 + j]);
        t[3][j] = g[6 + j];
    }
    for (int i = 0; i < 4; ++i) {
        float* u = U + (size_t)f * 16 + i * 4;
        u[0] = t[i][0];
        u[1] = 0.5f * (t[i][0] + t[i][1] + t[i][2]);
        u[2] = 0.5f * (t[i][0] - t[i][1] + t[i][2]);
        u[3] = t[i][2];
    }
}

__device__ __forceinline__ void bt(float& a, float& b, float& c, float& d)
{
    const float p = a - c, q = b + c, r = c - b, s = b - d;
    a = p, b = q, c = r, d = s;
}

__global__ void winograd(const float* __restrict__ x, const float* __restrict__ U, float* __restrict__ y, int C, int K, int H, int W)
{
    const int across = (W + 1) / 2, tile = blockIdx.x * 64 + threadIdx.x;
    if (tile >= across * ((H + 1) / 2)) return;
    const int r0 = tile / across * 2, c0 = tile % across * 2, b = blockIdx.y / K, o = blockIdx.y % K;
    float M[16] = {};
    for (int i = 0; i < C; ++i) {
        const float* plane = x + ((size_t)b * C + i) * H * W;
        float d[4][4];
#pragma unroll
        for (int u = 0; u < 4; ++u)
#pragma unroll
            for (int v = 0; v < 4; ++v) {
                const int r = r0 + u - 1, c = c0 + v - 1;
                d[u][v] = r >= 0 && r < H && c >= 0 && c < W ? plane[(size_t)r * W + c] : 0.0f;
            }
#pragma unroll
        for (int v = 0; v < 4; ++v) bt(d[0][v], d[1][v], d[2][v], d[3][v]);
#pragma unroll
        for (int u = 0; u < 4; ++u) bt(d[u][0], d[u][1], d[u][2], d[u][3]);
        const float* f = U + ((size_t)o * C + i) * 16;
#pragma unroll
        for (int e = 0; e < 16; ++e) M[e] = fmaf(d[e / 4][e % 4], f[e], M[e]);
    }
    float t[2][4];
#pragma unroll
    for (int v = 0; v < 4; ++v) {
        t[0][v] = M[v] + M[4 + v] + M[8 + v];
        t[1][v] = M[4 + v] - M[8 + v] - M[12 + v];
    }
    float* out = y + (size_t)blockIdx.y * H * W;
#pragma unroll
    for (int u = 0; u < 2; ++u) {
        if (r0 + u >= H) continue;
        out[(size_t)(r0 + u) * W + c0] = t[u][0] + t[u][1] + t[u][2];
        if (c0 + 1 < W) out[(size_t)(r0 + u) * W + c0 + 1] = t[u][1] - t[u][2] - t[u][3];
    }
}
