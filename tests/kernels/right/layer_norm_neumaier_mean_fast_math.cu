// problem: layer_norm
// style: --use_fast_math; a compensated mean per lane (Neumaier with intrinsics that stay apart), deviations added pairwise; a warp a row
// flags: --use_fast_math
// assay: launch ln_lanes grid=(ceil_div(rows, 8)) block=(256) args=(x, weight, bias, y, eps, rows, cols)
__global__ void ln_lanes(
    const float* x, const float* weight, const float* bias, float* y, float eps, int rows, int cols)
{
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    float sum = 0.0f, lost = 0.0f;
    for (int j = lane; j < cols; j += 32) {
        const float v = in[j], t = __fadd_rn(sum, v);
        lost += fabsf(sum) > fabsf(v) ? __fadd_rn(__fsub_rn(sum, t), v) : __fadd_rn(__fsub_rn(v, t), sum);
        sum = t;
    }
    sum += lost;
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    const float mean = sum / cols;
    float even = 0.0f, odd = 0.0f;
    for (int j = lane; j < cols; j += 64) {
        const float a = in[j] - mean;
        even += a * a;
        if (j + 32 < cols) {
            const float b = in[j + 32] - mean;
            odd += b * b;
        }
    }
    float squares = even + odd;
    for (int d = 16; d; d /= 2) squares += __shfl_xor_sync(~0u, squares, d);
    const float scale = 1.0f / sqrtf(squares / cols + eps);
    for (int j = lane; j < cols; j += 32) y[(size_t)row * cols + j] = (in[j] - mean) * scale * weight[j] + bias[j];
}
