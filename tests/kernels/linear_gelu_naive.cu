// problem: linear_gelu
// style: one thread an element, all in one launch
// assay: launch linear_gelu grid=(ceil_div(n, 32), ceil_div(m, 8)) block=(32, 8) args=(x, weight, bias, y, m, n, k)

__global__ void linear_gelu(const float* x, const float* weight, const float* bias, float* y, int m, int n, int k)
{
    const int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    if (row < m && col < n) {
        float sum = bias[col];
        for (int i = 0; i < k; ++i) {
            sum += x[(size_t)row * k + i] * weight[(size_t)col * k + i];
        }
        y[(size_t)row * n + col] = 0.5f * sum * (1.0f + erff(sum * 0.7071067811865475f));
    }
}
