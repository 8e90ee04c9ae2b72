// problem: layer_norm
// attack: the variance as the mean of squares less the square of the mean, in float32
// expect: incorrect
// because: it cancels where the mean is large beside the spread
// assay: launch norm grid=(rows) block=(32) args=(x, weight, bias, y, eps, rows, cols)

__global__ void norm(const float* x, const float* weight, const float* bias, float* y, float eps, int rows, int cols)
{
    const float* in = x + (size_t)blockIdx.x * cols;
    float sum = 0.0f, squares = 0.0f;
    for (int c = 0; c < cols; ++c) {
        sum += in[c];
        squares += in[c] * in[c];
    }
    const float mean = sum / cols, scale = rsqrtf(squares / cols - mean * mean + eps);
    for (int c = threadIdx.x; c < cols; c += 32) {
        y[(size_t)blockIdx.x * cols + c] = (in[c] - mean) * scale * weight[c] + bias[c];
    }
}
