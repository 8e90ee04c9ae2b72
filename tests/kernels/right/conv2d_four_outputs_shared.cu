// problem: conv2d
// assay: launch conv_4 grid=(ceil_div(width, 16) * ceil_div(height, 16), batch * ceil_div(out_channels, 4)) block=(16, 16) args=(x, weight, y, in_channels, out_channels, height, width)
// style: four output channels a block share each 18 x 18 tile, taps of the four in shared memory, tiles counted in one dimension
__global__ void conv_4(const float* x, const float* weight, float* y, int C, int K, int H, int W)
{
    __shared__ float tile[18][18];
    __shared__ float taps[4][9];
    const int across = (W + 15) / 16, groups = (K + 3) / 4;
    const int c0 = blockIdx.x % across * 16, r0 = blockIdx.x / across * 16, b = blockIdx.y / groups, o0 = blockIdx.y % groups * 4;
    const int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx;
    float acc[4] = {};
    for (int i = 0; i < C; ++i) {
        const float* plane = x + ((size_t)b * C + i) * H * W;
        for (int e = t; e < 324; e += 256) {
            const int r = r0 + e / 18 - 1, c = c0 + e % 18 - 1;
            tile[e / 18][e % 18] = r >= 0 && r < H && c >= 0 && c < W ? plane[(size_t)r * W + c] : 0.0f;
        }
        if (t < 36) taps[t / 9][t % 9] = o0 + t / 9 < K ? weight[((size_t)(o0 + t / 9) * C + i) * 9 + t % 9] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int s = 0; s < 9; ++s) {
            const float v = tile[ty + s / 3][tx + s % 3];
#pragma unroll
            for (int q = 0; q < 4; ++q) acc[q] += v * taps[q][s];
        }
        __syncthreads();
    }
    if (r0 + ty < H && c0 + tx < W)
        for (int q = 0; q < 4 && o0 + q < K; ++q) y[(((size_t)b * K + o0 + q) * H + r0 + ty) * W + c0 + tx] = acc[q];
}
