// problem: histogram
// class: schedule
// race: lock
// must: anything but passed
// why: the lock around the merge is looked at until it is free and then set by a store: two blocks may see it free and both go in
// proof: test and set must be one operation (atomicCAS, atomicExch); the fences here do not help
// assay: temp lock int32 (1)
// assay: fill lock value=0
// assay: fill counts value=0
// assay: launch hist grid=(min(ceil_div(n, 2048), 48)) block=(256) args=(values, counts, lock, n)

__global__ void hist(const int* values, int* counts, volatile int* lock, int n)
{
    __shared__ int bins[256];
    bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) atomicAdd(&bins[values[i]], 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        while (*lock) __nanosleep(100);
        *lock = 1;
        __threadfence();
    }
    __syncthreads();
    counts[threadIdx.x] += bins[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        *lock = 0;
    }
}
