// problem: reduce_sum
// style: the block that draws the last ticket adds the partial sums, behind a fence; no reset between launches
// assay: temp partial float32 (256)
// assay: temp tickets uint32 (1)
// assay: fill tickets value=0
// assay: launch sum_once grid=(256) block=(256) args=(x, partial, tickets, total, n)

__device__ float block_sum(float value)
{
    __shared__ float warps[8];
    for (int step = 16; step; step /= 2) value += __shfl_down_sync(~0u, value, step);
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = threadIdx.x < 8 ? warps[threadIdx.x] : 0.0f;
    for (int step = 4; step; step /= 2) value += __shfl_down_sync(~0u, value, step);
    return value;
}

__global__ void sum_once(const float* x, volatile float* partial, unsigned* tickets, float* total, int n)
{
    __shared__ unsigned ticket;
    float sum = 0.0f;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += 256 * 256) sum += x[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        ticket = atomicAdd(tickets, 1);
    }
    __syncthreads();
    if (ticket == 255) {
        __threadfence();
        sum = block_sum(partial[threadIdx.x]);
        if (threadIdx.x == 0) *total = sum;
    }
}
