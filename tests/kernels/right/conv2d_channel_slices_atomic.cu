// problem: conv2d
// assay: fill y value=0
// assay: launch conv_slices grid=(ceil_div(height * width, 128), batch * out_channels, min(4, in_channels)) block=(128) args=(x, weight, y, in_channels, out_channels, height, width)
// style: input channels split over gridDim.z, at most four slices, met by float atomics on a filled output
__global__ void conv_slices(const float* x, const float* w, float* y, int C, int K, int H, int W)
{
    const int pixel = blockIdx.x * 128 + threadIdx.x;
    if (pixel >= H * W) return;
    const int b = blockIdx.y / K, o = blockIdx.y % K, r = pixel / W, c = pixel % W;
    float sum = 0.0f;
    for (int i = blockIdx.z; i < C; i += gridDim.z) {
        const float* plane = x + ((size_t)b * C + i) * H * W;
        for (int t = 0; t < 9; ++t) {
            const int rr = r + t / 3 - 1, cc = c + t % 3 - 1;
            if (rr < 0 || rr >= H || cc < 0 || cc >= W) continue;
            sum += plane[(size_t)rr * W + cc] * w[((size_t)o * C + i) * 9 + t];
        }
    }
    atomicAdd(y + (size_t)blockIdx.y * H * W + pixel, sum);
}
