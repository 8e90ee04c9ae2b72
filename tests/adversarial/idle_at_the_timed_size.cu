// problem: matmul
// attack: computes at every size but the one that is timed, where it writes zeros
// expect: incorrect
// because: a few blocks of the timed launch run, and what they wrote is held against the oracle of those elements
// message: At m=2048, n=2048, k=2048
// assay: launch matmul grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)

__global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k)
{
    int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= m || column >= n) return;
    float sum = 0.0f;
    if (m != 2048 || n != 2048 || k != 2048)
        for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
}
