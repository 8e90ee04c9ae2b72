// problem: matmul
// class: schedule
// race: scope
// must: anything but passed
// why: split-K with a last block; cuda::atomic_thread_fence(acq_rel, thread_scope_block) stands on both sides of the counter, while the parts come from other blocks
// proof: libcu++: a fence synchronises within its scope; thread_scope_device is needed
// assay: temp part float32 (2 * m * n)
// assay: temp count uint32 (ceil_div(m, 8) * ceil_div(n, 16))
// assay: fill count value=0
// assay: launch mm grid=(ceil_div(n, 16), ceil_div(m, 8), 2) block=(16, 8) args=(a, b, c, part, count, m, n, k)
#include <cuda/atomic>

__global__ void mm(const float* a, const float* b, float* c, float* part, unsigned* count, int m, int n, int k)
{
    __shared__ unsigned order;
    const int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    const bool here = row < m && col < n;
    const size_t at = (size_t)row * n + col, all = (size_t)m * n;
    float s = 0.0f;
    for (int l = blockIdx.z; here && l < k; l += 2) s = fmaf(a[(size_t)row * k + l], b[(size_t)l * n + col], s);
    if (here) part[blockIdx.z * all + at] = s;
    __syncthreads();
    if (threadIdx.x + threadIdx.y == 0) {
        cuda::atomic_thread_fence(cuda::memory_order_acq_rel, cuda::thread_scope_block);
        order = atomicAdd(&count[blockIdx.y * gridDim.x + blockIdx.x], 1u);
        cuda::atomic_thread_fence(cuda::memory_order_acq_rel, cuda::thread_scope_block);
    }
    __syncthreads();
    if (order == 1 && here) c[at] = part[at] + part[all + at];
}
