// problem: conv2d
// assay: launch implicit_gemm grid=(ceil_div(batch * height * width, 16), ceil_div(out_channels, 16)) block=(16, 16) args=(x, weight, y, batch, in_channels, out_channels, height, width)
// style: implicit GEMM: out_channels by pixels, the inner dimension runs over channels and taps, tiles of 16 x 16
__global__ void implicit_gemm(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
                              int N, int C, int K, int H, int W)
{
    __shared__ float ws[16][17], xs[16][16];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int pixel = blockIdx.x * 16 + tx, o = blockIdx.y * 16 + ty, pixels = N * H * W, inner = C * 9;
    const int b = pixel / (H * W), at = pixel % (H * W), r = at / W, c = at % W;
    float acc = 0.0f;
    for (int l0 = 0; l0 < inner; l0 += 16) {
        ws[ty][tx] = o < K && l0 + tx < inner ? w[(size_t)o * inner + l0 + tx] : 0.0f;
        const int l = l0 + ty, i = l / 9, tap = l % 9, rr = r + tap / 3 - 1, cc = c + tap % 3 - 1;
        float v = 0.0f;
        if (pixel < pixels && l < inner && (unsigned)rr < (unsigned)H && (unsigned)cc < (unsigned)W)
            v = x[(((size_t)b * C + i) * H + rr) * W + cc];
        xs[ty][tx] = v;
        __syncthreads();
#pragma unroll
        for (int l1 = 0; l1 < 16; ++l1) acc += ws[ty][l1] * xs[l1][tx];
        __syncthreads();
    }
    if (o < K && pixel < pixels) y[((size_t)b * K + o) * H * W + at] = acc;
}
