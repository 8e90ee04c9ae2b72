// problem: rms_norm
// style: powf(mean + eps, -0.5f) under --use_fast_math, where it is lg2 and ex2; squares added by atomics in shared memory
// flags: --use_fast_math
// assay: launch rms_pow grid=(rows) block=(160) args=(x, weight, y, eps, cols)
__global__ void rms_pow(const float* x, const float* weight, float* y, float eps, int cols)
{
    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0.0f;
    __syncthreads();
    float part = 0.0f;
    for (int j = threadIdx.x; j < cols; j += 160) {
        const float v = x[(size_t)blockIdx.x * cols + j];
        part = fmaf(v, v, part);
    }
    atomicAdd(&sum, part);
    __syncthreads();
    const float scale = powf(sum / cols + eps, -0.5f);
    for (int j = threadIdx.x; j < cols; j += 160) {
        const size_t at = (size_t)blockIdx.x * cols + j;
        y[at] = x[at] * scale * weight[j];
    }
}
