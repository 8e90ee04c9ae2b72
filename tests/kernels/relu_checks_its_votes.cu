// problem: relu
// style: votes of both half-warps in one instruction, each with its own mask; traps unless each half hears its own
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

#include <cstdio>

__device__ void expect(const char* what, unsigned got, unsigned wanted)
{
    if (got == wanted) return;
    printf("%s in lane %d: %x instead of %x\n", what, threadIdx.x, got, wanted);
    __trap();
}

__global__ void relu(const float* x, float* y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (blockIdx.x == 0 && threadIdx.x < 32) {
        const unsigned lane = threadIdx.x;
        const unsigned mask = (lane < 16 ? 0xffffu : 0xffff0000u) ^ (n >> 31);  // not known to the compiler
        expect("ballot", __ballot_sync(mask, lane & 1), lane < 16 ? 0xaaaau : 0xaaaa0000u);
        expect("any", __any_sync(mask, lane == 20) != 0, lane >= 16);
        expect("all", __all_sync(mask, lane < 16) != 0, lane < 16);
    }
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}
