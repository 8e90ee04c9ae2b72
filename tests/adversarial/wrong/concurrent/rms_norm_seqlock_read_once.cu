// problem: rms_norm
// class: schedule
// race: lock
// must: anything but passed
// why: two halves of a row's squares are put under a seqlock; the reader waits for the final even number but has read the values before it, and does not read them again
// proof: the values loaded in front of the number's acquire load may be those before the second writer came; a seqlock's reader reads between two looks at the number
// assay: temp seq uint32 (rows)
// assay: temp halves float32 (rows * 2)
// assay: fill seq value=0
// assay: fill halves value=0
// assay: launch rms grid=(2, min(rows, 32)) block=(96) cooperative args=(x, weight, y, seq, halves, eps, rows, cols)
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
            value(halves[2 * row + blockIdx.x]).store(warps[0] + warps[1] + warps[2], cuda::memory_order_relaxed);
            lock.fetch_add(1, cuda::memory_order_release);
            float one, two;
            do {
                one = value(halves[2 * row]).load(cuda::memory_order_relaxed);
                two = value(halves[2 * row + 1]).load(cuda::memory_order_relaxed);
            } while (lock.load(cuda::memory_order_acquire) != 2);
            factor = rsqrtf((one + two) / cols + eps);
        }
        __syncthreads();
        for (int c = from + threadIdx.x; c < to; c += 96) y[row * cols + c] = x[row * cols + c] * factor * weight[c];
        __syncthreads();
    }
}
