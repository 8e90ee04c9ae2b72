// problem: vector_add
// class: schedule
// race: barrier
// must: anything but passed
// why: a scheduler warp hands tiles to four workers through a ring of two mbarriers; the empty barrier counts one arrival, of whichever worker comes first, so the scheduler overwrites a number that slower workers have not read
// proof: the empty barrier must count all four consumers: PTX ISA, mbarrier: a phase is over when the expected arrivals have come
// assay: temp next uint32 (1)
// assay: fill next value=0
// assay: launch add grid=(32) block=(160) args=(a, b, c, next, n)
__device__ __forceinline__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void arrive(unsigned long long* bar)
{
    asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" ::"r"(at(bar)) : "memory");
}
__device__ __forceinline__ void wait(unsigned long long* bar, unsigned parity)
{
    asm volatile("{\n .reg .pred p;\n again:\n mbarrier.test_wait.parity.shared.b64 p, [%0], %1;\n @!p bra again;\n }" ::"r"(at(bar)), "r"(parity) : "memory");
}

__global__ void __launch_bounds__(160) add(const float* a, const float* b, float* c, unsigned* next, int n)
{
    __shared__ alignas(8) unsigned long long full[2], empty[2];
    __shared__ volatile unsigned drawn[2];
    const unsigned tiles = (n + 255) / 256;
    if (threadIdx.x == 0) {
        for (int s = 0; s < 2; ++s) {
            asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at(full + s)) : "memory");
            asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at(empty + s)) : "memory");
        }
    }
    __syncthreads();
    if (threadIdx.x >= 128) {
        if (threadIdx.x != 128) return;
        for (unsigned round = 0;; ++round) {
            const unsigned s = round & 1, turn = round >> 1;
            wait(empty + s, (turn & 1) ^ 1);
            const unsigned tile = atomicAdd(next, 1u);
            drawn[s] = tile;
            arrive(full + s);
            if (tile >= tiles) break;
        }
    } else {
        for (unsigned round = 0;; ++round) {
            const unsigned s = round & 1, turn = round >> 1;
            wait(full + s, turn & 1);
            const unsigned tile = drawn[s];
            __syncwarp();
            if (threadIdx.x == 0) arrive(empty + s);
            if (tile >= tiles) break;
            for (int i = tile * 256 + threadIdx.x; i < min(n, (int)(tile * 256 + 256)); i += 128) c[i] = a[i] + b[i];
        }
    }
}
