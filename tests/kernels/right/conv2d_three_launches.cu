// problem: conv2d
// assay: fill y value=0
// assay: launch tap grid=(ceil_div(height * width, 256), batch * out_channels) block=(256) args=(x, weight, y, in_channels, out_channels, height, width, 0)
// assay: launch tap grid=(ceil_div(height * width, 256), batch * out_channels) block=(256) args=(x, weight, y, in_channels, out_channels, height, width, 1)
// assay: launch tap grid=(ceil_div(height * width, 256), batch * out_channels) block=(256) args=(x, weight, y, in_channels, out_channels, height, width, 2)
// style: three launches, one for each row of taps, which add onto the output as shifted images
__global__ void tap(const float* x, const float* w, float* y, int C, int K, int H, int W, int s)
{
    const int pixel = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = pixel / W + s - 1, col = pixel % W;
    if (pixel >= H * W || row < 0 || row >= H) return;
    const int b = blockIdx.y / K, o = blockIdx.y % K;
    float sum = 0.0f;
    for (int i = 0; i < C; ++i) {
        const float* p = x + (((size_t)b * C + i) * H + row) * W;
        const float* g = w + (((size_t)o * C + i) * 3 + s) * 3;
        if (col > 0) sum += p[col - 1] * g[0];
        sum += p[col] * g[1];
        if (col < W - 1) sum += p[col + 1] * g[2];
    }
    y[(size_t)blockIdx.y * H * W + pixel] += sum;
}
