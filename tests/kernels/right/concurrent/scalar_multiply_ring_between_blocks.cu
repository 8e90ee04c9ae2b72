// problem: scalar_multiply
// assay: temp ring float32 (16 * 4 * 128)
// assay: temp heads uint32 (16)
// assay: temp tails uint32 (16)
// assay: fill heads value=0
// assay: fill tails value=0
// assay: launch pairs grid=(32) block=(128) cooperative args=(x, y, alpha, n, ring, heads, tails)
// style: pairs of blocks: one fills a ring of four slots in global memory, its partner empties it; head and tail by cuda::atomic_ref
#include <cuda/atomic>
using counter = cuda::atomic_ref<unsigned, cuda::thread_scope_device>;

__global__ void pairs(const float* x, float* y, float alpha, int n, float* ring, unsigned* heads, unsigned* tails)
{
    const int pair = blockIdx.x / 2, t = threadIdx.x, tiles = (n + 127) / 128;
    counter head(heads[pair]), tail(tails[pair]);
    float* slots = ring + pair * 4 * 128;
    unsigned count = 0;
    for (int tile = pair; tile < tiles; tile += 16, ++count) {
        const int i = tile * 128 + t;
        if (blockIdx.x % 2 == 0) {
            if (t == 0)
                while (count - tail.load(cuda::memory_order_acquire) >= 4) __nanosleep(50);
            __syncthreads();
            slots[count % 4 * 128 + t] = i < n ? alpha * x[i] : 0.0f;
            __syncthreads();
            if (t == 0) head.store(count + 1, cuda::memory_order_release);
        } else {
            if (t == 0)
                while (head.load(cuda::memory_order_acquire) <= count) __nanosleep(50);
            __syncthreads();
            if (i < n) y[i] = slots[count % 4 * 128 + t];
            __syncthreads();
            if (t == 0) tail.store(count + 1, cuda::memory_order_release);
        }
    }
}
