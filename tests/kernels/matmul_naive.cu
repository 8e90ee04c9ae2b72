// problem: matmul
// style: one thread an element
// assay: launch matmul grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)

__global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < m && col < n) {
        float sum = 0.0f;
        for (int i = 0; i < k; i++) {
            sum += a[(size_t)row * k + i] * b[(size_t)i * n + col];
        }
        c[(size_t)row * n + col] = sum;
    }
}
