// problem: matmul
// attack: at the size that is timed, all but the first rows of blocks leave at once
// expect: incorrect
// because: the blocks that were sampled store less than half of what the output needs, so all of the launch is run
// message: were never written
// assay: launch matmul grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)

__global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k)
{
    int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= m || column >= n || (m == 2048 && blockIdx.y > 7)) return;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
}
