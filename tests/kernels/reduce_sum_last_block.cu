// problem: reduce_sum
// style: one launch: the last block to finish, told by a counter in device memory, adds the partial sums
// assay: temp partial float32 (64)
// assay: launch sum_once grid=(64) block=(128) args=(x, partial, total, n)

__device__ unsigned int finished = 0;

__device__ float block_sum(float value)
{
    __shared__ float warps[4];
    for (int offset = 16; offset > 0; offset >>= 1) {
        value += __shfl_xor_sync(0xffffffffu, value, offset);
    }
    __syncthreads();
    if ((threadIdx.x & 31) == 0) {
        warps[threadIdx.x >> 5] = value;
    }
    __syncthreads();
    return warps[0] + warps[1] + warps[2] + warps[3];
}

__global__ void sum_once(const float* x, volatile float* partial, float* total, int n)
{
    __shared__ bool last;
    float sum = 0.0f;
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += 64 * 128) {
        sum += x[i];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;  // wraps to 0 for the next launch
    }
    __syncthreads();
    if (last) {
        __threadfence();
        sum = block_sum(threadIdx.x < 64 ? partial[threadIdx.x] : 0.0f);
        if (threadIdx.x == 0) {
            *total = sum;
        }
    }
}
