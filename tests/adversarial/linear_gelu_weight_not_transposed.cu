// problem: linear_gelu
// attack: multiplies by weight instead of its transpose
// expect: incorrect|runtime_error
// because: n and k differ in most trials

__global__ void linear_gelu(const float* x, const float* weight, const float* bias, float* y, int m, int n, int k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < m * n) {
        float v = bias[i % n];
        for (int j = 0; j < k; ++j) v += x[(size_t)(i / n) * k + j] * weight[(size_t)j * n + i % n];
        y[i] = 0.5f * v * (1.0f + erff(v * 0.70710678f));
    }
}
