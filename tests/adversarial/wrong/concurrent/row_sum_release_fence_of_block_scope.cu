// problem: row_sum
// class: schedule
// race: scope
// must: anything but passed
// why: the release fence before the counter has the scope of the block, the acquire fence that of the device: the pair does not synchronise two blocks
// proof: PTX: the scope of each must include the other (morally strong), and .cta does not
// assay: temp came uint32 (rows)
// assay: fill came value=0
// assay: temp part float32 (2 * rows)
// assay: launch rs grid=(rows, 2) block=(64) args=(x, y, part, came, rows, cols)
#include <cuda/atomic>

__global__ void rs(const float* x, float* y, float* part, unsigned* came, int rows, int cols)
{
    __shared__ float other;
    const size_t row = blockIdx.x;
    float s = 0.0f;
    for (int c = blockIdx.y * 64 + threadIdx.x; c < cols; c += 128) s += x[row * cols + c];
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    if (threadIdx.x == 32) other = s;
    __syncthreads();
    if (threadIdx.x) return;
    part[2 * row + blockIdx.y] = s + other;
    cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_block);
    if (cuda::atomic_ref<unsigned, cuda::thread_scope_device>(came[row]).fetch_add(1u, cuda::memory_order_relaxed) == 0u) return;
    cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_device);
    y[row] = part[2 * row] + part[2 * row + 1];
}
