// problem: row_sum
// attack: `__syncthreads()` in both branches of a condition that warps evaluate otherwise
// expect: passed
// because: CUDA leaves it undefined; GPUs since Volta count threads and go on
// warns: split_barrier
// assay: launch sum_rows grid=(rows) block=(64) args=(x, y, rows, cols)

__global__ void sum_rows(const float* x, float* y, int rows, int cols)
{
    __shared__ float parts[64];
    const int i = threadIdx.x;
    float sum = 0.0f;
    for (int col = i; col < cols; col += 64) sum += x[(size_t)blockIdx.x * cols + col];
    if (i < 32) {
        parts[i] = sum;
        __syncthreads();  // HERE
        sum = parts[i] + parts[i + 32];
        for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
        if (i == 0) y[blockIdx.x] = sum;
    } else {
        parts[i] = sum * 1.0f;
        __syncthreads();
    }
}
