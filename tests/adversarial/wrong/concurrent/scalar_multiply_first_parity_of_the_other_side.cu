// problem: scalar_multiply
// class: schedule
// race: barrier
// must: anything but passed
// why: a consumer warp waits on the full barrier with the parity with which producers wait on an empty one: the phase before the first counts as complete, so it takes each slot one round too early
// proof: PTX ISA, mbarrier.test_wait.parity: on a fresh barrier parity 1 is true at once
// assay: launch scale grid=(min(ceil_div(n, 256), 64)) block=(64) args=(x, y, alpha, n)
__device__ __forceinline__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void arrive(unsigned long long* bar)
{
    asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" ::"r"(at(bar)) : "memory");
}
__device__ __forceinline__ void wait(unsigned long long* bar, unsigned parity)
{
    asm volatile("{\n .reg .pred p;\n again:\n mbarrier.test_wait.parity.shared.b64 p, [%0], %1;\n @!p bra again;\n }" ::"r"(at(bar)), "r"(parity) : "memory");
}

__global__ void scale(const float* x, float* y, float alpha, int n)
{
    __shared__ alignas(8) unsigned long long full[2], empty[2];
    __shared__ float slots[2][32];
    if (threadIdx.x < 2) {
        asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(at(full + threadIdx.x)) : "memory");
        asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(at(empty + threadIdx.x)) : "memory");
    }
    if (threadIdx.x < 32) slots[0][threadIdx.x] = slots[1][threadIdx.x] = 0.0f;
    __syncthreads();
    const int lane = threadIdx.x % 32;
    unsigned round = 0;
    for (int i = blockIdx.x * 32 + lane; i - lane < n; i += gridDim.x * 32, ++round) {
        const unsigned s = round & 1, turn = round >> 1 & 1;
        if (threadIdx.x < 32) {
            wait(empty + s, turn ^ 1);
            slots[s][lane] = i < n ? alpha * x[i] : 0.0f;
            arrive(full + s);
        } else {
            wait(full + s, turn ^ 1);
            if (i < n) y[i] = slots[s][lane];
            arrive(empty + s);
        }
    }
}
