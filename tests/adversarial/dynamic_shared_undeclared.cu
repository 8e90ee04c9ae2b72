// problem: row_sum
// attack: uses dynamic shared memory that the plan does not ask for
// expect: runtime_error
// because: the launch has no dynamic shared memory, so the first store is out of bounds
// fault: out_of_bounds
// assay: launch sums grid=(rows) block=(64) args=(x, y, rows, cols)

extern __shared__ float s[];

__global__ void sums(const float* x, float* y, int rows, int cols)
{
    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 64) {
        sum += x[(size_t)blockIdx.x * cols + c];
    }
    s[threadIdx.x] = sum;  // HERE
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int t = 1; t < 64; ++t) {
            sum += s[t];
        }
        y[blockIdx.x] = sum;
    }
}
