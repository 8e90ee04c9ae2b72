// problem: conv2d
// class: sizes
// must: anything but passed
// why: the grid's tiles of 32 columns are rounded up with tile - 2: a single column in the last tile is never written
// proof: assay grade --size width=65 refuses it
// assay: launch conv grid=(max((width + 30) // 32, 1), height, batch * out_channels) block=(32) args=(x, weight, y, in_channels, out_channels, height, width)

__global__ void conv(const float* x, const float* weight, float* y, int channels, int filters, int height, int width)
{
    const int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y;
    const int filter = blockIdx.z % filters, image = blockIdx.z / filters;
    if (column >= width) return;
    float sum = 0.0f;
    for (int c = 0; c < channels; ++c) {
        for (int t = 0; t < 9; ++t) {
            const int i = row + t / 3 - 1, j = column + t % 3 - 1;
            if (i < 0 || i >= height || j < 0 || j >= width) continue;
            sum = fmaf(x[((size_t)(image * channels + c) * height + i) * width + j], weight[(filter * channels + c) * 9 + t], sum);
        }
    }
    y[((size_t)(image * filters + filter) * height + row) * width + column] = sum;
}
