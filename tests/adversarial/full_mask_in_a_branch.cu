// problem: reduce_sum
// attack: half of the first warp shuffles with a mask that names all of it
// expect: passed
// because: the other half never comes to these shuffles; only lanes that are there give values that count
// warns: absent_lanes
// assay: fill total value=0
// assay: launch sum grid=(min(ceil_div(n, 512), 64)) block=(512) args=(x, total, n)

__global__ void sum(const float* x, float* total, int n)
{
    __shared__ float parts[16];
    float mine = 0.0f;
    for (int i = blockIdx.x * 512 + threadIdx.x; i < n; i += gridDim.x * 512) mine += x[i];
    for (int o = 16; o > 0; o /= 2) mine += __shfl_xor_sync(~0u, mine, o);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x < 16) {
        mine = parts[threadIdx.x];
        for (int o = 8; o > 0; o /= 2) mine += __shfl_xor_sync(~0u, mine, o);  // HERE
    }
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(total, mine);
}
