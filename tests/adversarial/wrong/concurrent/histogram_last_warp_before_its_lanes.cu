// problem: histogram
// class: schedule
// race: last block
// must: anything but passed
// why: the last warp of a block writes the bins out; lane 0 counts its warp as done right behind its own additions, without __syncwarp(), so other lanes of the warp may still have additions to make
// proof: independent thread scheduling: lanes of one warp need not be at the same place, and nothing orders their atomics before lane 0's count
// assay: fill counts value=0
// assay: launch hist grid=(min(ceil_div(n, 512), 40)) block=(128) args=(values, counts, n)
__global__ void hist(const int* values, int* counts, int n)
{
    __shared__ int bins[256], done;
    for (int e = threadIdx.x; e < 256; e += 128) bins[e] = 0;
    if (threadIdx.x == 0) done = 0;
    __syncthreads();
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) atomicAdd(&bins[values[i]], 1);
    int number = 0;
    if (threadIdx.x % 32 == 0) {
        __threadfence_block();
        number = atomicAdd(&done, 1);
        __threadfence_block();
    }
    number = __shfl_sync(~0u, number, 0);
    if (number != 3) return;
    for (int e = threadIdx.x % 32; e < 256; e += 32) {
        const int all = atomicAdd(&bins[e], 0);
        if (all) atomicAdd(counts + e, all);
    }
}
