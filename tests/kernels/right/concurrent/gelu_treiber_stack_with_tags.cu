// problem: gelu
// assay: temp links int32 (8)
// assay: temp top uint64 (1)
// assay: temp scratch float32 (8 * 256)
// assay: launch make grid=(1) block=(8) args=(links, top)
// assay: launch gelu grid=(min(ceil_div(n, 256), 64)) block=(256) args=(x, y, links, top, scratch, n)
// style: scratch buffers from a lock-free stack (Treiber) whose top carries a tag against ABA; pop acquires, push releases
#include <cuda/atomic>
using top_ref = cuda::atomic_ref<unsigned long long, cuda::thread_scope_device>;
using link_ref = cuda::atomic_ref<int, cuda::thread_scope_device>;

__global__ void make(int* links, unsigned long long* top)
{
    links[threadIdx.x] = threadIdx.x == 7 ? -1 : threadIdx.x + 1;
    if (threadIdx.x == 0) *top = 0;
}

__device__ int pop(int* links, unsigned long long* top)
{
    unsigned long long old = top_ref(*top).load(cuda::memory_order_acquire);
    while (true) {
        const int node = (int)(unsigned)old;
        if (node < 0) {
            __nanosleep(200);
            old = top_ref(*top).load(cuda::memory_order_acquire);
            continue;
        }
        const unsigned after = link_ref(links[node]).load(cuda::memory_order_relaxed);
        const unsigned long long wanted = ((old >> 32) + 1) << 32 | after;
        if (top_ref(*top).compare_exchange_weak(old, wanted, cuda::memory_order_acquire, cuda::memory_order_acquire)) return node;
    }
}

__device__ void push(int* links, unsigned long long* top, int node)
{
    unsigned long long old = top_ref(*top).load(cuda::memory_order_relaxed), wanted;
    do {
        link_ref(links[node]).store((int)(unsigned)old, cuda::memory_order_relaxed);
        wanted = ((old >> 32) + 1) << 32 | (unsigned)node;
    } while (!top_ref(*top).compare_exchange_weak(old, wanted, cuda::memory_order_release, cuda::memory_order_relaxed));
}

__global__ void gelu(const float* x, float* y, int* links, unsigned long long* top, float* scratch, int n)
{
    __shared__ int taken;
    if (threadIdx.x == 0) taken = pop(links, top);
    __syncthreads();
    float* mine = scratch + taken * 256;
    for (int base = blockIdx.x * 256; base < n; base += gridDim.x * 256) {
        const int i = base + threadIdx.x, other = threadIdx.x ^ 255;
        mine[other] = base + other < n ? x[base + other] : 0.0f;
        __syncthreads();
        const float v = mine[threadIdx.x];
        __syncthreads();
        if (i < n) y[i] = 0.5f * v * (1.0f + erff(v * 0.70710678f));
    }
    if (threadIdx.x == 0) push(links, top, taken);
}
