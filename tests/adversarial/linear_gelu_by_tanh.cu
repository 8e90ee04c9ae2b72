// problem: linear_gelu
// attack: the tanh approximation where the exact function is asked for
// expect: incorrect
// because: the approximation is wrong in the fourth digit

__global__ void linear_gelu(const float* x, const float* weight, const float* bias, float* y, int m, int n, int k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < m * n) {
        float v = bias[i % n];
        for (int j = 0; j < k; ++j) v += x[(size_t)(i / n) * k + j] * weight[(size_t)(i % n) * k + j];
        y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    }
}
