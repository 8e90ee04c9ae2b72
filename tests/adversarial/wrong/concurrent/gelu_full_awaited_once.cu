// problem: gelu
// class: schedule
// race: barrier
// must: anything but passed
// why: a consumer warp waits on the mbarrier of each slot in the first round only; in the second it takes what is there, perhaps the values of the first
// proof: wait(&full[b], 1) is missing in rounds two and three; a consumer that is faster than the producer
// assay: launch gelu grid=(ceil_div(n, 128)) block=(64) args=(x, y, n)

__device__ unsigned at_shared(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init_barrier(unsigned long long* b, int count) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at_shared(b)), "r"(count) : "memory"); }
__device__ void arrive(unsigned long long* b) { asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" ::"r"(at_shared(b)) : "memory"); }
__device__ void wait(unsigned long long* b, unsigned parity)
{
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(at_shared(b)), "r"(parity) : "memory");
}

__global__ void gelu(const float* x, float* y, int n)
{
    __shared__ float slot[2][32];
    __shared__ unsigned long long full[2], empty[2];
    if (threadIdx.x < 2) {
        init_barrier(&full[threadIdx.x], 32);
        init_barrier(&empty[threadIdx.x], 32);
    }
    __syncthreads();
    const int lane = threadIdx.x & 31;
    for (int k = 0; k < 4; ++k) {
        const int i = blockIdx.x * 128 + k * 32 + lane, b = k & 1;
        if (threadIdx.x < 32) {
            if (k >= 2) wait(&empty[b], 0);
            slot[b][lane] = i < n ? x[i] : 0.0f;
            arrive(&full[b]);
        } else {
            if (k < 2) wait(&full[b], 0);
            const float v = slot[b][lane];
            if (k < 2) arrive(&empty[b]);
            if (i < n) y[i] = v * normcdff(v);
        }
    }
}
