// problem: reduce_sum
// attack: block 0 adds the partial sums of the others without waiting for them
// expect: incorrect
// because: nothing orders the blocks of a launch
// assay: temp partial float32 (32)
// assay: launch sum grid=(32) block=(32) args=(x, partial, total, n)

__global__ void sum(const float* x, float* partial, float* total, int n)
{
    float mine = 0.0f;
    for (int i = blockIdx.x * 32 + threadIdx.x; i < n; i += 32 * 32) mine += x[i];
    for (int mask = 16; mask > 0; mask >>= 1) mine += __shfl_xor_sync(~0u, mine, mask);
    if (threadIdx.x == 0) partial[blockIdx.x] = mine;
    __syncthreads();
    if (blockIdx.x == 31) {
        mine = partial[threadIdx.x];
        for (int mask = 16; mask > 0; mask >>= 1) mine += __shfl_xor_sync(~0u, mine, mask);
        if (threadIdx.x == 0) *total = mine;
    }
}
