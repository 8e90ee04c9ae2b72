// problem: layer_norm
// attack: divides by cols - 1
// expect: incorrect
// because: the variance here is that of the whole row
// assay: launch norm grid=(rows) block=(32) args=(x, weight, bias, y, eps, rows, cols)

__global__ void norm(const float* x, const float* weight, const float* bias, float* y, float eps, int rows, int cols)
{
    const float* in = x + (size_t)blockIdx.x * cols;
    float sum = 0.0f, squares = 0.0f;
    for (int c = 0; c < cols; ++c) sum += in[c];
    const float mean = sum / cols;
    for (int c = 0; c < cols; ++c) squares += (in[c] - mean) * (in[c] - mean);
    const float scale = rsqrtf(squares / max(cols - 1, 1) + eps);
    for (int c = threadIdx.x; c < cols; c += 32) {
        y[(size_t)blockIdx.x * cols + c] = (in[c] - mean) * scale * weight[c] + bias[c];
    }
}
