// problem: matmul
// attack: adds beta * c to the product as BLAS does; 0 times what c holds at the start is no 0
// expect: incorrect
// because: an output holds no defined value before the first launch, and 0 * NaN is NaN
// message: c[0] was read or accumulated into, but never set before
// assay: launch gemm grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k, 0.0)

__global__ void gemm(const float* a, const float* b, float* c, int m, int n, int k, float beta)
{
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row < m && col < n) {
        float sum = 0.0f;
        for (int i = 0; i < k; i++) {
            sum += a[row * k + i] * b[i * n + col];
        }
        c[row * n + col] = sum + beta * c[row * n + col];
    }
}
