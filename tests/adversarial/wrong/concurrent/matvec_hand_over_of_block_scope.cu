// problem: matvec
// class: schedule
// race: scope
// must: anything but passed
// why: the flag between two blocks is an atomic_ref of block scope: release and acquire hold within a block only
// proof: PTX: two operations are morally strong only if the scope of each includes the other thread
// assay: temp part float32 (m)
// assay: temp flag uint32 (m)
// assay: temp ticket uint32 (1)
// assay: fill flag value=0
// assay: fill ticket value=0
// assay: launch mv grid=(2 * m) block=(64) args=(a, x, y, part, flag, ticket, m, k)
#include <cuda/atomic>

__global__ void mv(const float* a, const float* x, float* y, float* part, unsigned* flag, unsigned* ticket, int m, int k)
{
    __shared__ float other;
    __shared__ unsigned drawn;
    if (threadIdx.x == 0) drawn = atomicAdd(ticket, 1u);
    __syncthreads();
    const int row = drawn / 2, half = drawn % 2;
    float s = 0.0f;
    for (int c = half * 64 + threadIdx.x; c < k; c += 128) s += a[(size_t)row * k + c] * x[c];
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    if (threadIdx.x == 32) other = s;
    __syncthreads();
    if (threadIdx.x) return;
    cuda::atomic_ref<unsigned, cuda::thread_scope_block> raised(flag[row]);
    if (half == 0) {
        part[row] = s + other;
        raised.store(1u, cuda::memory_order_release);
    } else {
        while (!raised.load(cuda::memory_order_acquire)) { }
        y[row] = part[row] + s + other;
    }
}
