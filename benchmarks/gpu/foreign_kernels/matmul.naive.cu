// expected: passed
// One thread for each element, no tiles.
// assay: launch matmul grid=(ceil_div(n, 64), m) block=(64) args=(a, b, out, m, k, n)

extern "C" __global__ void matmul(const float* a, const float* b, float* out, int m, int k, int n)
{
    int row = blockIdx.y, column = blockIdx.x * 64 + threadIdx.x;
    if (column >= n) return;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
    out[row * n + column] = sum;
}
