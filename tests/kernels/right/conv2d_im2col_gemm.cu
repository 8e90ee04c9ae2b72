// problem: conv2d
// assay: temp columns float32 (in_channels * 9, batch * height * width)
// assay: launch im2col grid=(ceil_div(batch * height * width, 256), min(in_channels, 65535)) block=(256) args=(x, columns, batch, in_channels, height, width)
// assay: launch gemm grid=(ceil_div(batch * height * width, 32), ceil_div(out_channels, 8)) block=(32, 8) args=(weight, columns, y, batch, in_channels, out_channels, height, width)
// style: im2col as in early frameworks: all patches in a temporary, then a tiled product
__global__ void im2col(const float* im, float* col, int batch, int channels, int height, int width)
{
    const int pixels = batch * height * width;
    const int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= pixels) return;
    const int w_out = p % width, h_out = p / width % height, n = p / width / height;
    for (int channel = blockIdx.y; channel < channels; channel += gridDim.y) {
        for (int i = 0; i < 3; ++i)
            for (int j = 0; j < 3; ++j) {
                const int h = h_out + i - 1, w = w_out + j - 1;
                const bool inside = h >= 0 && w >= 0 && h < height && w < width;
                col[((size_t)channel * 9 + i * 3 + j) * pixels + p] =
                    inside ? im[(((size_t)n * channels + channel) * height + h) * width + w] : 0.0f;
            }
    }
}

__global__ void gemm(const float* weight, const float* col, float* y, int batch, int channels, int out, int height, int width)
{
    __shared__ float ws[8][32];
    const int area = height * width, pixels = batch * area, inner = channels * 9;
    const int p = blockIdx.x * 32 + threadIdx.x, o = blockIdx.y * 8 + threadIdx.y;
    float s = 0.0f;
    for (int l0 = 0; l0 < inner; l0 += 32) {
        ws[threadIdx.y][threadIdx.x] = o < out && l0 + threadIdx.x < inner ? weight[(size_t)o * inner + l0 + threadIdx.x] : 0.0f;
        __syncthreads();
        const int stop = min(32, inner - l0);
        if (p < pixels)
            for (int l = 0; l < stop; ++l) s += ws[threadIdx.y][l] * col[(size_t)(l0 + l) * pixels + p];
        __syncthreads();
    }
    if (p < pixels && o < out) y[((size_t)(p / area) * out + o) * area + p % area] = s;
}
