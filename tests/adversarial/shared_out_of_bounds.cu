// problem: row_sum
// attack: a block of 128 writes into a shared array of 64
// expect: runtime_error
// because: shared memory has an end as well
// fault: out_of_bounds
// assay: launch sums grid=(rows) block=(128) args=(x, y, rows, cols)

__global__ void sums(const float* x, float* y, int rows, int cols)
{
    __shared__ float s[64];
    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        sum += x[(size_t)blockIdx.x * cols + c];
    }
    s[threadIdx.x] = sum;  // HERE
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int t = 1; t < 128; ++t) {
            sum += s[t];
        }
        y[blockIdx.x] = sum;
    }
}
