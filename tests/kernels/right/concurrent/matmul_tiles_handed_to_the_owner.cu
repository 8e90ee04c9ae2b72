// problem: matmul
// assay: temp ticket uint32 (1)
// assay: temp ready uint32 (ceil_div(m, 16) * ceil_div(n, 16))
// assay: temp part float32 (ceil_div(m, 16) * ceil_div(n, 16) * 256)
// assay: fill ticket value=0
// assay: fill ready value=0
// assay: launch mm grid=(ceil_div(m, 16) * ceil_div(n, 16) * 2) block=(16, 16) args=(a, b, c, ticket, ready, part, m, n, k)
// style: stream-K's fix-up: the block that drew an even ticket hands its half of the depth to the one with the odd ticket
#include <cuda/atomic>

__global__ void mm(const float* a, const float* b, float* c, unsigned* ticket, unsigned* ready, float* part, int m, int n, int k)
{
    __shared__ float as[16][17], bs[16][17];
    __shared__ unsigned drawn;
    const int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx;
    if (t == 0) drawn = atomicAdd(ticket, 1u);
    __syncthreads();
    const int tile = drawn / 2, across = (n + 15) / 16, row = tile / across * 16 + ty, col = tile % across * 16 + tx;
    const int half = (k / 2 + 15) / 16 * 16, begin = drawn & 1 ? min(k, half) : 0, end = drawn & 1 ? k : min(k, half);
    float s = 0.0f;
    for (int l = begin; l < end; l += 16) {
        as[ty][tx] = row < m && l + tx < end ? a[(size_t)row * k + l + tx] : 0.0f;
        bs[ty][tx] = col < n && l + ty < end ? b[(size_t)(l + ty) * n + col] : 0.0f;
        __syncthreads();
        for (int e = 0; e < 16; ++e) s += as[ty][e] * bs[e][tx];
        __syncthreads();
    }
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> flag(ready[tile]);
    if (drawn & 1) {
        if (t == 0) flag.wait(0u, cuda::memory_order_acquire);
        __syncthreads();
        s += part[(size_t)tile * 256 + t];
        if (row < m && col < n) c[(size_t)row * n + col] = s;
    } else {
        part[(size_t)tile * 256 + t] = s;
        __syncthreads();
        if (t == 0) flag.store(1u, cuda::memory_order_release);
    }
}
