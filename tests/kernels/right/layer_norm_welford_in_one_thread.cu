// problem: layer_norm
// style: one thread for each row, Welford's update over all of it; bound by order, without a plan
__global__ void layernorm_kernel(const float* input, const float* gamma, const float* beta, float* output, float eps,
                                 int batch, int hidden)
{
    int r = threadIdx.x + blockIdx.x * blockDim.x;
    if (r >= batch) return;
    float mean = 0, m2 = 0;
    for (int i = 0; i < hidden; i++) {
        float v = input[(size_t)r * hidden + i], d = v - mean;
        mean += d / (i + 1);
        m2 += d * (v - mean);
    }
    float inv = 1.0f / sqrtf(m2 / hidden + eps);
    for (int i = 0; i < hidden; i++)
        output[(size_t)r * hidden + i] = (input[(size_t)r * hidden + i] - mean) * inv * gamma[i] + beta[i];
}
