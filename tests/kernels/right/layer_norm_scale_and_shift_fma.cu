// problem: layer_norm
// style: as some frameworks apply it: a = r * weight, b = bias - mean * a, y = fmaf(x, a, b); sum times 1 / cols; --fmad=false beside it
// flags: --fmad=false
// assay: launch ln_ab grid=(ceil_div(rows, 4)) block=(32, 4) args=(x, weight, bias, y, eps, rows, cols)
__global__ void ln_ab(const float* x, const float* weight, const float* bias, float* y, float eps, int rows, int cols)
{
    const int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    const float share = 1.0f / cols;
    float sum = 0.0f, squares = 0.0f;
    for (int j = threadIdx.x; j < cols; j += 32) sum += in[j];
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    const float mean = sum * share;
    for (int j = threadIdx.x; j < cols; j += 32) squares += (in[j] - mean) * (in[j] - mean);
    for (int d = 16; d; d /= 2) squares += __shfl_xor_sync(~0u, squares, d);
    const float r = rsqrtf(squares * share + eps);
    for (int j = threadIdx.x; j < cols; j += 32) {
        const float a = r * weight[j], b = bias[j] - mean * a;
        y[(size_t)row * cols + j] = fmaf(in[j], a, b);
    }
}
