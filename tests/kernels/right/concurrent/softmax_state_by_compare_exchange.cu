// problem: softmax
// assay: temp state uint64 (rows)
// assay: temp came uint32 (rows)
// assay: fill came value=0
// assay: fill state value=0
// assay: launch find grid=(rows, 3) block=(64) args=(x, state, cols)
// assay: launch put grid=(rows) block=(128) args=(x, y, state, cols)
// style: maximum and sum of a row in one 64-bit word, merged by warps through atomic_ref::compare_exchange_weak; zero means nobody yet
#include <cuda/atomic>
using word = cuda::atomic_ref<unsigned long long, cuda::thread_scope_device>;

__global__ void find(const float* x, unsigned long long* state, int cols)
{
    const size_t row = blockIdx.x;
    float top = -3.4e38f, sum = 0.0f;
    for (int c = blockIdx.y * 64 + threadIdx.x; c < cols; c += 192) {
        const float v = x[row * cols + c], higher = fmaxf(top, v);
        sum = sum * expf(top - higher) + expf(v - higher);
        top = higher;
    }
    for (int d = 16; d; d >>= 1) {
        const float other = __shfl_xor_sync(~0u, top, d), more = __shfl_xor_sync(~0u, sum, d), higher = fmaxf(top, other);
        sum = sum * expf(top - higher) + more * expf(other - higher);
        top = higher;
    }
    if (threadIdx.x % 32 || sum == 0.0f) return;
    word shared_state(state[row]);
    unsigned long long seen = shared_state.load(cuda::memory_order_relaxed), wanted;
    do {
        float all = top, total = sum;
        if (seen) {
            const float other = __uint_as_float((unsigned)(seen >> 32)), more = __uint_as_float((unsigned)seen);
            all = fmaxf(top, other);
            total = sum * expf(top - all) + more * expf(other - all);
        }
        wanted = (unsigned long long)__float_as_uint(all) << 32 | __float_as_uint(total);
    } while (!shared_state.compare_exchange_weak(seen, wanted, cuda::memory_order_relaxed));
}

__global__ void put(const float* x, float* y, const unsigned long long* state, int cols)
{
    const size_t row = blockIdx.x;
    const float top = __uint_as_float((unsigned)(state[row] >> 32)), sum = __uint_as_float((unsigned)state[row]);
    for (int c = threadIdx.x; c < cols; c += 128) y[row * cols + c] = expf(x[row * cols + c] - top) / sum;
}
