// problem: vector_add
// class: schedule
// race: barrier
// must: anything but passed
// why: pairs of blocks with a ring of eight slots in global memory: the consumer waits for the producer's head, but the producer never looks at a tail, and overwrites slots that are still unread when it is a ring ahead
// proof: flow control in one direction only; a producer that is eight tiles faster
// assay: temp ring float32 (12 * 8 * 128)
// assay: temp heads uint32 (12)
// assay: fill heads value=0
// assay: launch pairs grid=(24) block=(128) cooperative args=(a, b, c, n, ring, heads)
#include <cuda/atomic>

__global__ void pairs(const float* a, const float* b, float* c, int n, float* ring, unsigned* heads)
{
    const int pair = blockIdx.x >> 1, t = threadIdx.x;
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> head(heads[pair]);
    unsigned k = 0;
    for (long long at = pair * 128LL; at < n; at += 12 * 128LL, ++k) {
        float* slot = ring + (pair * 8 + k % 8) * 128;
        if (blockIdx.x & 1) {
            if (t == 0)
                while (head.load(cuda::memory_order_acquire) <= k) { }
            __syncthreads();
            if (at + t < n) c[at + t] = slot[t];
        } else {
            if (at + t < n) slot[t] = a[at + t] + b[at + t];
            __syncthreads();
            if (t == 0) head.store(k + 1, cuda::memory_order_release);
        }
    }
}
