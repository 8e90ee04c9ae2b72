// problem: histogram
// assay: fill counts value=0
// assay: launch hist grid=(min(ceil_div(n, 2048), 128)) block=(256) args=(values, counts, n)
// style: four warps count by atomicInc in shared memory while four others drain bins by atomicExch now and then; the rest at the end
__global__ void hist(const int* values, int* counts, int n)
{
    __shared__ unsigned bins[256];
    __shared__ volatile int busy;
    bins[threadIdx.x] = 0;
    if (threadIdx.x == 0) busy = 4;
    __syncthreads();
    if (threadIdx.x < 128) {
        for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) atomicInc(&bins[values[i]], 0xffffffffu);
        __syncwarp();
        if (threadIdx.x % 32 == 0) atomicSub((int*)&busy, 1);
    } else {
        int b = threadIdx.x - 128;
        while (busy) {
            const unsigned some = atomicExch(&bins[b], 0u);
            if (some) atomicAdd(&counts[b], (int)some);
            b = b + 37 & 255;
        }
    }
    __syncthreads();
    const unsigned rest = bins[threadIdx.x];
    if (rest) atomicAdd(&counts[threadIdx.x], (int)rest);
}
