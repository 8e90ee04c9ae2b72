// problem: gelu
// assay: launch gelu_ring grid=(min(ceil_div(n, 96), 300)) block=(192) args=(x, y, n)
// style: full and empty mbarriers in PTX for a ring of two: arrive, test_wait.parity with phases counted by the tile's number
__device__ __forceinline__ unsigned address(void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void init(unsigned long long* bar, unsigned count)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address(bar)), "r"(count) : "memory");
}
__device__ __forceinline__ void arrive(unsigned long long* bar)
{
    asm volatile("{ .reg .b64 token; mbarrier.arrive.shared.b64 token, [%0]; }" ::"r"(address(bar)) : "memory");
}
__device__ __forceinline__ void wait(unsigned long long* bar, unsigned parity)
{
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(address(bar)), "r"(parity) : "memory");
}

__global__ void gelu_ring(const float* x, float* y, int n)
{
    __shared__ float ring[2][96];
    __shared__ unsigned long long full[2], empty[2];
    if (threadIdx.x == 0)
        for (int b = 0; b < 2; ++b) {
            init(&full[b], 96);
            init(&empty[b], 96);
        }
    __syncthreads();
    const int tiles = (n + 95) / 96, t = threadIdx.x % 96;
    int k = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, ++k) {
        const int i = tile * 96 + t, b = k & 1, phase = k >> 1 & 1;
        if (threadIdx.x < 96) {
            wait(&empty[b], phase ^ 1);  // the first time round it is empty
            ring[b][t] = i < n ? x[i] : 0.0f;
            arrive(&full[b]);
        } else {
            wait(&full[b], phase);
            const float v = ring[b][95 - t];
            arrive(&empty[b]);
            const int j = tile * 96 + 95 - t;
            if (j < n) y[j] = v * normcdff(v);
        }
    }
}
