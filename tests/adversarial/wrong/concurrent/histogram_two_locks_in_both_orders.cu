// problem: histogram
// class: schedule
// race: lock
// must: anything but passed
// why: even blocks take the lock of the low bins and then that of the high ones, odd blocks the other way round: two blocks that hold one each wait for each other for ever
// proof: circular wait; nothing in CUDA frees a lock that a resident block holds
// assay: temp lock int32 (2)
// assay: fill lock value=0
// assay: fill counts value=0
// assay: launch hist grid=(min(ceil_div(n, 256), 64)) block=(256) args=(values, counts, lock, n)
__device__ void take(int* l) { while (atomicCAS(l, 0, 1)) __nanosleep(20); __threadfence(); }
__device__ void release(int* l) { __threadfence(); atomicExch(l, 0); }

__global__ void hist(const int* values, int* counts, int* lock, int n)
{
    __shared__ int bins[256];
    bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) atomicAdd(&bins[values[i]], 1);
    __syncthreads();
    const int first = blockIdx.x % 2;
    if (threadIdx.x == 0) {
        take(lock + first);
        take(lock + 1 - first);
    }
    __syncthreads();
    counts[threadIdx.x] += bins[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
        release(lock + first);
        release(lock + 1 - first);
    }
}
