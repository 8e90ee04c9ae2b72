// problem: rms_norm
// assay: launch rmsnorm_kernel grid=(rows) block=(512) args=(x, weight, y, eps, rows, cols)
// style: a chat model's RMSNorm with emphatic comments, BLOCK_SIZE macro, a tree in shared memory and powf
#define BLOCK_SIZE 512

/*
 * RMSNorm forward kernel
 * y = x / sqrt(mean(x^2) + eps) * weight
 * Grid: one block per row. Block: BLOCK_SIZE threads.
 */
__global__ void rmsnorm_kernel(
    const float* __restrict__ x,
    const float* __restrict__ weight,
    float* __restrict__ y,
    const float eps,
    const int rows,
    const int cols
) {
    const int row = blockIdx.x;
    if (row >= rows) return;

    __shared__ float shared_sum[BLOCK_SIZE];

    float thread_sum = 0.0f;
    for (int col = threadIdx.x; col < cols; col += BLOCK_SIZE) {
        float val = x[row * cols + col];
        thread_sum += powf(val, 2.0f);
    }
    shared_sum[threadIdx.x] = thread_sum;
    __syncthreads();

    #pragma unroll
    for (int s = BLOCK_SIZE / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) {
            shared_sum[threadIdx.x] += shared_sum[threadIdx.x + s];
        }
        __syncthreads();
    }

    // Broadcast RMS to all threads
    const float rms = sqrtf(shared_sum[0] / (float)cols + eps);

    for (int col = threadIdx.x; col < cols; col += BLOCK_SIZE) {
        y[row * cols + col] = (x[row * cols + col] / rms) * weight[col];
    }
}
