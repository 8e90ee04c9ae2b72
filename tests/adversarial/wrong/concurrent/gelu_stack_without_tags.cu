// problem: gelu
// class: schedule
// race: lock
// must: anything but passed
// why: scratch buffers come from a lock-free stack (Treiber) whose top has no tag: between a pop's look at the next link and its CAS others may pop two and push the first back (ABA), so a buffer in use is handed out again
// proof: pop A sees (A, next B); others pop A and B, push A; the CAS A -> B succeeds although B is in use, and two blocks write one buffer
// assay: temp links int32 (8)
// assay: temp top int32 (1)
// assay: temp scratch float32 (8 * 64)
// assay: launch make grid=(1) block=(8) args=(links, top)
// assay: launch gelu grid=(min(ceil_div(n, 64), 48)) block=(64) args=(x, y, links, top, scratch, n)
#include <cuda/atomic>
using word = cuda::atomic_ref<int, cuda::thread_scope_device>;

__global__ void make(int* links, int* top)
{
    links[threadIdx.x] = threadIdx.x == 7 ? -1 : threadIdx.x + 1;
    if (threadIdx.x == 0) *top = 0;
}

__device__ int pop(int* links, int* top)
{
    int old = word(*top).load(cuda::memory_order_acquire);
    while (true) {
        if (old < 0) {
            __nanosleep(200);
            old = word(*top).load(cuda::memory_order_acquire);
            continue;
        }
        const int after = word(links[old]).load(cuda::memory_order_relaxed);
        if (word(*top).compare_exchange_strong(old, after, cuda::memory_order_acq_rel, cuda::memory_order_acquire)) return old;
    }
}

__device__ void push(int* links, int* top, int node)
{
    int old = word(*top).load(cuda::memory_order_relaxed);
    do word(links[node]).store(old, cuda::memory_order_relaxed);
    while (!word(*top).compare_exchange_strong(old, node, cuda::memory_order_acq_rel, cuda::memory_order_acquire));
}

__global__ void gelu(const float* x, float* y, int* links, int* top, float* scratch, int n)
{
    __shared__ int taken;
    for (int base = blockIdx.x * 64; base < n; base += gridDim.x * 64) {
        if (threadIdx.x == 0) taken = pop(links, top);
        __syncthreads();
        float* mine = scratch + taken * 64;
        const int i = base + threadIdx.x, other = threadIdx.x ^ 63;
        mine[other] = base + other < n ? x[base + other] : 0.0f;
        __syncthreads();
        const float v = mine[threadIdx.x];
        if (i < n) y[i] = 0.5f * v * (1.0f + erff(v * 0.70710678f));
        __syncthreads();
        if (threadIdx.x == 0) push(links, top, taken);
        __syncthreads();
    }
}
