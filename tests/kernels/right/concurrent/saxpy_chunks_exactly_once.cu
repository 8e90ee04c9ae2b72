// problem: saxpy
// assay: temp next uint32 (1)
// assay: fill next value=0
// assay: copy y out
// assay: launch once grid=(72) block=(160) args=(x, out, alpha, n, next)
// style: out already holds y and each chunk is added once: cuda::atomic_ref fetch_add deals the chunks out
#include <cuda/atomic>

__global__ void once(const float* x, float* out, float alpha, int n, unsigned* next)
{
    __shared__ unsigned dealt[2];
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> deal(*next);
    for (int round = 0;; round ^= 1) {
        if (threadIdx.x == 0) dealt[round] = deal.fetch_add(640, cuda::memory_order_relaxed);
        __syncthreads();  // two slots: the next deal does not meet those who still read this one
        const unsigned from = dealt[round];
        if (from >= (unsigned)n) break;
        for (unsigned i = from + threadIdx.x; i < min(from + 640, (unsigned)n); i += 160) out[i] = fmaf(alpha, x[i], out[i]);
    }
}
