// problem: row_sum
// attack: adds onto shared memory that nobody has set
// expect: incorrect
// because: undefined memory differs from run to run
// assay: launch sums grid=(rows) block=(32) args=(x, y, rows, cols)

__global__ void sums(const float* x, float* y, int rows, int cols)
{
    __shared__ float sum;
    for (int c = threadIdx.x; c < cols; c += 32) {
        atomicAdd(&sum, x[(size_t)blockIdx.x * cols + c]);
    }
    __syncwarp();
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
