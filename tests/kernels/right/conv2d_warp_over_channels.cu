// problem: conv2d
// assay: launch conv_warp grid=(ceil_div(height * width, 4), batch * out_channels) block=(128) args=(x, weight, y, in_channels, out_channels, height, width)
// style: a warp an output element: lanes run over pairs of channel and tap, shuffles add up
__global__ void conv_warp(const float* x, const float* weight, float* y, int C, int K, int H, int W)
{
    const int pixel = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (pixel >= H * W) return;
    const int b = blockIdx.y / K, o = blockIdx.y % K, r = pixel / W, c = pixel - r * W;
    float s = 0.0f;
    for (int e = lane; e < C * 9; e += 32) {
        const int i = e / 9, t = e - i * 9, rr = r + t / 3 - 1, cc = c + t % 3 - 1;
        if (rr >= 0 && cc >= 0 && rr < H && cc < W)
            s = fmaf(x[(((size_t)b * C + i) * H + rr) * W + cc], weight[(size_t)o * C * 9 + e], s);
    }
    for (int d = 16; d > 0; d /= 2) s += __shfl_down_sync(0xffffffffu, s, d);
    if (lane == 0) y[(size_t)blockIdx.y * H * W + pixel] = s;
}
