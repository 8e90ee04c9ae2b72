// problem: layer_norm
// style: E[x^2] - mean^2, sums and difference in double, clamped at zero, 1/sqrt in float; float64 pairs in a struct by one shuffle helper
// assay: launch ln_squares grid=(ceil_div(rows, 2)) block=(64, 2) args=(x, weight, bias, y, eps, rows, cols)
__global__ void ln_squares(
    const float* x, const float* weight, const float* bias, float* y, float eps, int rows, int cols)
{
    __shared__ double sums[2][2][2];
    const int row = blockIdx.x * 2 + threadIdx.y;
    double a = 0.0, b = 0.0;
    if (row < rows)
        for (int j = threadIdx.x; j < cols; j += 64) {
            const double v = x[(size_t)row * cols + j];
            a += v;
            b = fma(v, v, b);
        }
    for (int d = 16; d; d /= 2) {
        a += __shfl_xor_sync(~0u, a, d);
        b += __shfl_xor_sync(~0u, b, d);
    }
    if (threadIdx.x % 32 == 0) {
        sums[threadIdx.y][threadIdx.x / 32][0] = a;
        sums[threadIdx.y][threadIdx.x / 32][1] = b;
    }
    __syncthreads();
    if (row >= rows) return;
    const double mean = (sums[threadIdx.y][0][0] + sums[threadIdx.y][1][0]) / cols;
    const double square = (sums[threadIdx.y][0][1] + sums[threadIdx.y][1][1]) / cols;
    const float scale = 1.0f / sqrtf((float)fmax(square - mean * mean, 0.0) + eps);
    for (int j = threadIdx.x; j < cols; j += 64) {
        const size_t at = (size_t)row * cols + j;
        y[at] = (float)(x[at] - mean) * scale * weight[j] + bias[j];
    }
}
