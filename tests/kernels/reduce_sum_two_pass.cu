// problem: reduce_sum
// style: one partial sum a block into a temporary, a second launch adds them
// assay: temp partial float32 (ceil_div(n, 1024))
// assay: launch block_sums grid=(ceil_div(n, 1024)) block=(256) shared=1024 args=(x, partial, n)
// assay: launch final_sum grid=(1) block=(256) args=(partial, total, ceil_div(n, 1024))

extern __shared__ float scratch[];

__global__ void block_sums(const float* x, float* partial, int n)
{
    float sum = 0.0f;
    for (int i = blockIdx.x * 1024 + threadIdx.x; i < min(n, (int)(blockIdx.x + 1) * 1024); i += blockDim.x) {
        sum += x[i];
    }
    scratch[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half >>= 1) {
        if (threadIdx.x < half) {
            scratch[threadIdx.x] += scratch[threadIdx.x + half];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = scratch[0];
    }
}

__global__ void final_sum(const float* partial, float* total, int count)
{
    __shared__ float sums[256];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < count; i += 256) {
        sum += partial[i];
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            sums[threadIdx.x] += sums[threadIdx.x + half];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        *total = sums[0];
    }
}
