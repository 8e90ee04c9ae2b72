// problem: prefix_sum
// assay: temp sums float32 (48)
// assay: temp arrived uint32 (1)
// assay: fill arrived value=0
// assay: launch phases grid=(48) block=(128) cooperative args=(x, y, sums, arrived, n)
// style: three phases in one launch between hand-made grid barriers: one rising counter, fence.acq_rel.gpu on both sides
__device__ void all_blocks(unsigned* arrived, unsigned goal)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned seen;
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
        asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(arrived) : "memory");
        do asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(arrived) : "memory");
        while (seen < goal);
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
    }
    __syncthreads();
}

__global__ void phases(const float* x, float* y, float* sums, unsigned* arrived, int n)
{
    __shared__ float warps[4];
    const int lane = threadIdx.x & 31, w = threadIdx.x >> 5;
    const int piece = (n + 47) / 48, begin = min(n, (int)blockIdx.x * piece), end = min(n, begin + piece);
    float s = 0.0f;
    for (int i = begin + threadIdx.x; i < end; i += 128) s += x[i];
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    if (lane == 0) warps[w] = s;
    __syncthreads();
    if (threadIdx.x == 0) sums[blockIdx.x] = warps[0] + warps[1] + warps[2] + warps[3];
    all_blocks(arrived, 48);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        float run = 0.0f;
        for (int b = 0; b < 48; ++b) {
            const float own = sums[b];
            sums[b] = run;
            run += own;
        }
    }
    all_blocks(arrived, 96);
    float run = sums[blockIdx.x];
    for (int base = begin; base < end; base += 128) {
        const int i = base + threadIdx.x;
        float v = i < end ? x[i] : 0.0f;
        for (int d = 1; d < 32; d <<= 1) {
            const float u = __shfl_up_sync(~0u, v, d);
            if (lane >= d) v += u;
        }
        if (lane == 31) warps[w] = v;
        __syncthreads();
        for (int k = 0; k < w; ++k) v += warps[k];
        if (i < end) y[i] = run + v;
        run += warps[0] + warps[1] + warps[2] + warps[3];
        __syncthreads();
    }
}
