// problem: rms_norm
// assay: temp seq uint32 (rows)
// assay: temp halves float32 (rows * 2)
// assay: fill seq value=0
// assay: launch rms grid=(2, min(rows, 32)) block=(96) cooperative args=(x, weight, y, seq, halves, eps, rows, cols)
// style: a seqlock over two relaxed words: writers raise the number to odd by CAS and to even by release; readers look again where it changed
#include <cuda/atomic>
using number = cuda::atomic_ref<unsigned, cuda::thread_scope_device>;
using value = cuda::atomic_ref<float, cuda::thread_scope_device>;

__global__ void rms(const float* x, const float* weight, float* y, unsigned* seq, float* halves, float eps, int rows, int cols)
{
    __shared__ float warps[3], factor;
    const int from = blockIdx.x ? cols / 2 : 0, to = blockIdx.x ? cols : cols / 2;
    for (size_t row = blockIdx.y; row < rows; row += gridDim.y) {
        float s = 0.0f;
        for (int c = from + threadIdx.x; c < to; c += 96) s += x[row * cols + c] * x[row * cols + c];
        for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
        if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = s;
        __syncthreads();
        if (threadIdx.x == 0) {
            number lock(seq[row]);
            unsigned was = 0;
            while (true) {
                was = lock.load(cuda::memory_order_relaxed) & ~1u;
                if (lock.compare_exchange_strong(was, was + 1, cuda::memory_order_acquire, cuda::memory_order_relaxed)) break;
                __nanosleep(20);
            }
            cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_device);
            value(halves[2 * row + blockIdx.x]).store(warps[0] + warps[1] + warps[2], cuda::memory_order_relaxed);
            lock.store(was + 2, cuda::memory_order_release);
            while (true) {
                const unsigned before = lock.load(cuda::memory_order_acquire);
                const float one = value(halves[2 * row]).load(cuda::memory_order_relaxed);
                const float two = value(halves[2 * row + 1]).load(cuda::memory_order_relaxed);
                cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_device);
                if (before == 4 && lock.load(cuda::memory_order_relaxed) == before) {
                    factor = rsqrtf((one + two) / cols + eps);
                    break;
                }
                __nanosleep(20);
            }
        }
        __syncthreads();
        for (int c = from + threadIdx.x; c < to; c += 96) y[row * cols + c] = x[row * cols + c] * factor * weight[c];
        __syncthreads();
    }
}
