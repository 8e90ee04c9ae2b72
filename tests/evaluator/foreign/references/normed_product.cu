// assay: temp normed float32 (rows, cols)
// assay: launch norm grid=(rows) block=(32) args=(x, norm_weight, norm_bias, normed, cols)
// assay: launch product grid=(rows) block=(64) args=(normed, product_weight, product_bias, out, cols, features)
__global__ void norm(const float* x, const float* weight, const float* bias, float* y, int cols)
{
    const float* in = x + blockIdx.x * cols;
    float mean = 0.0f, variance = 0.0f;
    for (int i = 0; i < cols; i++) mean += in[i];
    mean /= cols;
    for (int i = 0; i < cols; i++) variance += (in[i] - mean) * (in[i] - mean);
    float rate = rsqrtf(variance / cols + 1e-5f);
    for (int i = threadIdx.x; i < cols; i += 32)
        y[blockIdx.x * cols + i] = (in[i] - mean) * rate * weight[i] + bias[i];
}

__global__ void product(const float* x, const float* weight, const float* bias, float* y, int cols, int features)
{
    int j = threadIdx.x;
    if (j >= features) return;
    float sum = bias[j];
    for (int i = 0; i < cols; i++) sum += x[blockIdx.x * cols + i] * weight[j * cols + i];
    y[blockIdx.x * features + j] = sum;
}
