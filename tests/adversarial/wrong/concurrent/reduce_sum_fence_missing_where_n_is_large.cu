// problem: reduce_sum
// class: schedule
// race: fence
// must: anything but passed
// why: up to 300,000 elements one block adds all; above that the last of 64 blocks adds the others' parts, which were stored without a fence before the counter, so what is wrong happens at large sizes only
// proof: CUDA guide, the example of __threadfence(): without it the counter may be seen before the part
// assay: temp part float32 (64)
// assay: temp count uint32 (1)
// assay: fill count value=0
// assay: launch sum grid=(64) block=(256) args=(x, total, part, count, n)
__device__ float of_block(float s)
{
    __shared__ float warps[8];
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = s;
    __syncthreads();
    s = 0.0f;
    for (int w = 0; w < 8; ++w) s += warps[w];
    return s;
}

__global__ void sum(const float* x, float* total, float* part, unsigned* count, int n)
{
    __shared__ bool last;
    const bool small = n <= 300000;
    if (small && blockIdx.x) return;
    float s = 0.0f;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += small ? 256 : 64 * 256) s += x[i];
    s = of_block(s);
    if (small) {
        if (threadIdx.x == 0) *total = s;
        return;
    }
    if (threadIdx.x == 0) {
        part[blockIdx.x] = s;
        last = atomicAdd(count, 1u) == 63;
    }
    __syncthreads();
    if (!last) return;
    s = of_block(threadIdx.x < 64 ? ((volatile float*)part)[threadIdx.x] : 0.0f);
    if (threadIdx.x == 0) *total = s;
}
