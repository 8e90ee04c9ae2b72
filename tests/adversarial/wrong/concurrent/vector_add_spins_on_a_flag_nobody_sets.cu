// problem: vector_add
// class: schedule
// race: lock
// must: anything but passed
// why: block 1 waits by ld.acquire for a flag that block 0 raises at an index one off, so nobody ever sets it; where there is one block only, all is well
// proof: go[1] is never written after the fill; at n > 256 the loop cannot end
// assay: temp go int32 (4)
// assay: fill go value=0
// assay: launch add grid=(ceil_div(n, 256)) block=(256) args=(a, b, c, go, n)
#include <cuda/atomic>

__global__ void add(const float* a, const float* b, float* c, int* go, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (blockIdx.x == 1) {
        if (threadIdx.x == 0)
            while (cuda::atomic_ref<int, cuda::thread_scope_device>(go[1]).load(cuda::memory_order_acquire) == 0) __nanosleep(100);
        __syncthreads();
    }
    if (i < n) c[i] = a[i] + b[i];
    __syncthreads();
    if (blockIdx.x == 0 && threadIdx.x == 0) cuda::atomic_ref<int, cuda::thread_scope_device>(go[0]).store(1, cuda::memory_order_release);
}
