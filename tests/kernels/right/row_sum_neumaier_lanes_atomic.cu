// problem: row_sum
// style: Neumaier in each lane; sums and compensations each added onto shared memory by float atomics, joined at the end
// assay: launch rows_neumaier grid=(rows) block=(64) args=(x, y, cols)
__global__ void rows_neumaier(const float* x, float* y, int cols)
{
    __shared__ float total, error;
    if (threadIdx.x == 0) total = error = 0.0f;
    __syncthreads();
    float sum = 0.0f, lost = 0.0f;
    for (int j = threadIdx.x; j < cols; j += 64) {
        const float v = x[(size_t)blockIdx.x * cols + j], t = sum + v;
        lost += fabsf(sum) >= fabsf(v) ? (sum - t) + v : (v - t) + sum;
        sum = t;
    }
    atomicAdd(&total, sum);
    atomicAdd(&error, lost);
    __syncthreads();
    if (threadIdx.x == 0) y[blockIdx.x] = total + error;
}
