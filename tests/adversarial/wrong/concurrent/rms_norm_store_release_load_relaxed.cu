// problem: rms_norm
// class: schedule
// race: fence
// must: anything but passed
// why: half of the squares comes from a second block, published by cuda::atomic_ref store(release) but awaited by load(relaxed): the squares may be read too early
// proof: C++ memory model: a relaxed load does not synchronise with a release store
// assay: temp ticket uint32 (1)
// assay: temp squares float32 (rows)
// assay: temp ready int32 (rows)
// assay: fill ticket value=0
// assay: fill ready value=0
// assay: launch rms grid=(rows * 2) block=(64) args=(x, weight, y, ticket, squares, ready, eps, rows, cols)
#include <cuda/atomic>

__global__ void rms(const float* x, const float* weight, float* y, unsigned* ticket, float* squares, int* ready, float eps, int rows, int cols)
{
    __shared__ unsigned drawn;
    __shared__ float part[2];
    const int t = threadIdx.x;
    if (t == 0) drawn = atomicAdd(ticket, 1u);
    __syncthreads();
    const int row = drawn / 2;
    const float* in = x + (size_t)row * cols;
    float s = 0.0f;
    for (int c = drawn % 2 * 64 + t; c < cols; c += 128) s += in[c] * in[c];
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    if (t % 32 == 0) part[t / 32] = s;
    __syncthreads();
    s = part[0] + part[1];
    cuda::atomic_ref<int, cuda::thread_scope_device> flag(ready[row]);
    if (drawn % 2 == 0) {
        if (t == 0) {
            squares[row] = s;
            flag.store(1, cuda::memory_order_release);
        }
        return;
    }
    while (flag.load(cuda::memory_order_relaxed) == 0) { }
    const float r = rsqrtf((s + squares[row]) / cols + eps);
    for (int c = t; c < cols; c += 64) y[(size_t)row * cols + c] = in[c] * r * weight[c];
}
