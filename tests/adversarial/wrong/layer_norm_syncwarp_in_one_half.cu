// problem: layer_norm
// class: warp
// must: anything but passed
// why: only lanes that write call __syncwarp; the readers of the other half meet no barrier, so nothing says that they read after the write
// proof: PTX bar.warp.sync orders memory among the threads that take part; the upper half does not
// assay: launch ln grid=(ceil_div(rows, 4)) block=(128) args=(x, weight, bias, y, eps, rows, cols)

__global__ void ln(const float* x, const float* weight, const float* bias, float* y, float eps, int rows, int cols)
{
    __shared__ float half_sums[4][16];
    const int w = threadIdx.x >> 5, l = threadIdx.x & 31, r = blockIdx.x * 4 + w;
    if (r >= rows) return;
    x += (size_t)r * cols;
    y += (size_t)r * cols;
    float s = 0.f;
    for (int c = l; c < cols; c += 32) s += x[c];
    s += __shfl_down_sync(~0u, s, 16);
    if (l < 16) {
        half_sums[w][l] = s;
        __syncwarp(0x0000ffffu);
    }
    float mean = 0.f;
    for (int i = 0; i < 16; ++i) mean += half_sums[w][(i + l) & 15];
    mean /= cols;
    float d = 0.f;
    for (int c = l; c < cols; c += 32) d += (x[c] - mean) * (x[c] - mean);
    for (int o = 16; o; o >>= 1) d += __shfl_xor_sync(~0u, d, o);
    const float scale = rsqrtf(d / cols + eps);
    for (int c = l; c < cols; c += 32) y[c] = (x[c] - mean) * scale * weight[c] + bias[c];
}
