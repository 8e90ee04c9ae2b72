// problem: rms_norm
// assay: launch rms grid=(rows) block=(128) args=(x, weight, y, eps, cols)
// style: cuda::atomic in shared memory counts warps that have added; all spin until it is four (release, acquire, block scope)
#include <cuda/atomic>

__global__ void rms(const float* x, const float* weight, float* y, float eps, int cols)
{
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ cuda::atomic<unsigned, cuda::thread_scope_block> added;
    __shared__ float squares[4];
    if (threadIdx.x == 0) added.store(0, cuda::memory_order_relaxed);
    __syncthreads();
    const float* in = x + (size_t)blockIdx.x * cols;
    float s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 128) s += in[c] * in[c];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    if (threadIdx.x % 32 == 0) {
        squares[threadIdx.x / 32] = s;
        added.fetch_add(1, cuda::memory_order_release);
    }
    while (added.load(cuda::memory_order_acquire) != 4) { }
    const float r = rsqrtf((squares[0] + squares[1] + squares[2] + squares[3]) / cols + eps);
    for (int c = threadIdx.x; c < cols; c += 128) y[(size_t)blockIdx.x * cols + c] = in[c] * r * weight[c];
}
