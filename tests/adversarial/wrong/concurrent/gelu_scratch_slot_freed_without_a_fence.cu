// problem: gelu
// class: schedule
// race: lock
// must: anything but passed
// why: a scratch buffer is given back by an atomic without a fence before it: the stores of its old owner may come to memory after those of the next one
// proof: PTX: relaxed atomics order nothing for other words; coherence may put the old store last
// assay: temp free uint32 (1)
// assay: temp scratch float32 (8 * 64)
// assay: launch make grid=(1) block=(1) args=(free)
// assay: launch gelu grid=(min(ceil_div(n, 64), 48)) block=(64) args=(x, y, free, scratch, n)
__global__ void make(unsigned* free) { *free = 0xffu; }

__global__ void gelu(const float* x, float* y, unsigned* free, float* scratch, int n)
{
    __shared__ int slot;
    for (int base = blockIdx.x * 64; base < n; base += gridDim.x * 64) {
        if (threadIdx.x == 0) {
            for (;;) {
                const unsigned some = atomicOr(free, 0u);
                const unsigned bit = some & -some;
                if (bit && (atomicAnd(free, ~bit) & bit)) {
                    slot = __ffs(bit) - 1;
                    break;
                }
                __nanosleep(100);
            }
            __threadfence();
        }
        __syncthreads();
        float* mine = scratch + slot * 64;
        const int i = base + threadIdx.x, other = threadIdx.x ^ 63;
        mine[other] = base + other < n ? x[base + other] : 0.0f;
        __syncthreads();
        const float v = mine[threadIdx.x];
        if (i < n) y[i] = 0.5f * v * (1.0f + erff(v * 0.70710678f));
        __syncthreads();
        if (threadIdx.x == 0) {
            atomicOr(free, 1u << slot);
        }
        __syncthreads();
    }
}
