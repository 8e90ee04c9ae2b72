// problem: histogram
// class: schedule
// race: scope
// must: anything but passed
// why: blocks add their bins to counts by red.relaxed.cta: atomic within a block only, while all blocks share the words
// proof: PTX: operations whose scopes do not include each other are not morally strong: no atomicity between blocks
// assay: fill counts value=0
// assay: launch hist grid=(min(ceil_div(n, 2048), 200)) block=(256) args=(values, counts, n)

__global__ void hist(const int* values, int* counts, int n)
{
    __shared__ int bins[256];
    bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) atomicAdd(&bins[values[i]], 1);
    __syncthreads();
    asm volatile("red.relaxed.cta.global.add.s32 [%0], %1;" ::"l"(counts + threadIdx.x), "r"(bins[threadIdx.x]) : "memory");
}
