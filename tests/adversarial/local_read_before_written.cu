// problem: matvec
// attack: starts the sum from a local array that was never set
// expect: incorrect|compile_error
// because: undefined memory differs from run to run
// assay: launch matvec grid=(ceil_div(m, 64)) block=(64) args=(a, x, y, m, k)

__global__ void matvec(const float* a, const float* x, float* y, int m, int k)
{
    int row = blockIdx.x * 64 + threadIdx.x;
    volatile float sums[8];
    if (row < m) {
        for (int j = 0; j < k; ++j) sums[j % 8] = sums[j % 8] + a[(size_t)row * k + j] * x[j];
        float sum = 0.0f;
        for (int j = 0; j < 8; ++j) sum += sums[j];
        y[row] = sum;
    }
}
