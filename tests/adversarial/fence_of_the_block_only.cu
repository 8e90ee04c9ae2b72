// problem: reduce_sum
// attack: the last block adds what the others stored before a fence that counts within a block only
// expect: incorrect
// because: `__threadfence_block()` orders nothing for other blocks
// message: which it does not see
// assay: temp part float32 (ceil_div(n, 4096))
// assay: temp arrived uint32 (1)
// assay: fill arrived value=0
// assay: launch sum grid=(ceil_div(n, 4096)) block=(128) args=(x, part, arrived, total, n)

__device__ float of_block(float mine)
{
    __shared__ float warps[4];
    for (int step = 16; step > 0; step >>= 1) mine += __shfl_xor_sync(~0u, mine, step);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
    __syncthreads();
    float all = warps[0] + warps[1] + warps[2] + warps[3];
    __syncthreads();
    return all;
}

__global__ void sum(const float* x, float* part, unsigned* arrived, float* total, int n)
{
    __shared__ unsigned place;
    float mine = 0.0f;
    for (int i = blockIdx.x * 4096 + threadIdx.x; i < min(n, (int)(blockIdx.x + 1) * 4096); i += 128) mine += x[i];
    mine = of_block(mine);
    if (threadIdx.x == 0) {
        part[blockIdx.x] = mine;
        __threadfence_block();
        place = atomicAdd(arrived, 1u);
        __threadfence_block();
    }
    __syncthreads();
    if (place != gridDim.x - 1) return;
    mine = 0.0f;
    for (int i = threadIdx.x; i < gridDim.x; i += 128) mine += part[i];
    mine = of_block(mine);
    if (threadIdx.x == 0) total[0] = mine;
}
