// problem: conv2d
// assay: launch conv_vec grid=(ceil_div(height * ceil_div(width, 4), 96), batch * out_channels) block=(96) args=(x, weight, y, in_channels, out_channels, height, width)
// style: four outputs of a row a thread from six inputs; a float4 where the width is a multiple of four; structs by value
struct row6 {
    float v[6];
};

__device__ row6 read_row(const float* plane, int r, int c, int H, int W)
{
    row6 out = {{0.f, 0.f, 0.f, 0.f, 0.f, 0.f}};
    if (r < 0 || r >= H) return out;
    const float* p = plane + (size_t)r * W + c;
    if (c > 0) out.v[0] = p[-1];
    if (W % 4 == 0) {
        const float4 four = *reinterpret_cast<const float4*>(p);
        out.v[1] = four.x, out.v[2] = four.y, out.v[3] = four.z, out.v[4] = four.w;
    } else {
        for (int j = 0; j < 4; ++j)
            if (c + j < W) out.v[1 + j] = p[j];
    }
    if (c + 4 < W) out.v[5] = p[4];
    return out;
}

__global__ void conv_vec(const float* x, const float* weight, float* y, int C, int K, int H, int W)
{
    const int quads = (W + 3) / 4, id = blockIdx.x * 96 + threadIdx.x;
    if (id >= H * quads) return;
    const int r = id / quads, c = id % quads * 4, b = blockIdx.y / K, o = blockIdx.y % K;
    float acc[4] = {};
    for (int i = 0; i < C; ++i) {
        const float* g = weight + ((size_t)o * C + i) * 9;
#pragma unroll
        for (int s = 0; s < 3; ++s) {
            const row6 in = read_row(x + ((size_t)b * C + i) * H * W, r + s - 1, c, H, W);
#pragma unroll
            for (int t = 0; t < 3; ++t)
#pragma unroll
                for (int j = 0; j < 4; ++j) acc[j] += in.v[j + t] * g[s * 3 + t];
        }
    }
    float* to = y + ((size_t)blockIdx.y * H + r) * W + c;
    if (W % 4 == 0) *reinterpret_cast<float4*>(to) = make_float4(acc[0], acc[1], acc[2], acc[3]);
    else
        for (int j = 0; j < 4 && c + j < W; ++j) to[j] = acc[j];
}
