// problem: histogram
// class: schedule
// race: lock
// must: anything but passed
// why: the lock around the merge is given up after 3,000 looks, in the belief that its holder must be done or dead by then; a holder that is held up is not, and two blocks add to the same words
// proof: nothing bounds the time that another block takes; mutual exclusion ends with the 3,001st look
// assay: temp lock int32 (1)
// assay: fill lock value=0
// assay: fill counts value=0
// assay: launch hist grid=(min(ceil_div(n, 256), 64)) block=(256) args=(values, counts, lock, n)
__global__ void hist(const int* values, volatile int* counts, int* lock, int n)
{
    __shared__ int bins[256];
    bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) atomicAdd(&bins[values[i]], 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int looks = 0; looks < 3000 && atomicCAS(lock, 0, 1); ++looks) { }
        __threadfence();
    }
    __syncthreads();
    counts[threadIdx.x] += bins[threadIdx.x];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) atomicExch(lock, 0);
}
