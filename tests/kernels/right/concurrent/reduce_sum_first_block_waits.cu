// problem: reduce_sum
// assay: temp part float32 (48)
// assay: temp here uint32 (1)
// assay: fill here value=0
// assay: launch gather grid=(48) block=(192) cooperative args=(x, part, here, total, n)
// style: red.release.gpu by all blocks, and block 0 spins with ld.acquire.gpu until all 48 have come; cooperative for residency only
__global__ void gather(const float* x, float* part, unsigned* here, float* total, int n)
{
    __shared__ double warps[6];
    double s = 0.0;
    for (int i = blockIdx.x * 192 + threadIdx.x; i < n; i += 48 * 192) s += x[i];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(0xffffffffu, s, d);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 6; ++w) s += warps[w];
        part[blockIdx.x] = (float)s;
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(here) : "memory");
    }
    if (blockIdx.x == 0 && threadIdx.x < 32) {
        unsigned seen;
        do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(here) : "memory");
        while (seen != 48);
        float all = part[threadIdx.x] + (threadIdx.x < 16 ? part[32 + threadIdx.x] : 0.0f);
        for (int d = 16; d; d >>= 1) all += __shfl_down_sync(0xffffffffu, all, d);
        if (threadIdx.x == 0) *total = all;
    }
}
