// problem: matvec
// attack: the right answer, but one thread never ends
// expect: timeout
// because: a launch ends when all of its threads have
// assay: launch matvec grid=(ceil_div(m, 64)) block=(64) args=(a, x, y, m, k)

__global__ void matvec(const float* a, const float* x, volatile float* y, int m, int k)
{
    int row = blockIdx.x * 64 + threadIdx.x;
    if (row < m) {
        float sum = 0.0f;
        for (int j = 0; j < k; ++j) sum += a[(size_t)row * k + j] * x[j];
        do {
            y[row] = sum;
        } while (row == 0);
    }
}
