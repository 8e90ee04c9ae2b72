// problem: rms_norm
// class: schedule
// race: fence
// must: anything but passed
// why: the lock around a row's plain sum is a cuda::atomic_ref exchanged and stored with memory_order_relaxed: exclusive, but the next holder need not see the sum that the last one stored
// proof: C++ and PTX memory models: without release and acquire on the lock the plain accesses inside race
// assay: temp squares float32 (rows)
// assay: temp lock int32 (rows)
// assay: fill squares value=0
// assay: fill lock value=0
// assay: launch add grid=(rows, 4) block=(64) args=(x, squares, lock, cols)
// assay: launch scale grid=(rows) block=(64) args=(x, weight, squares, y, eps, cols)
#include <cuda/atomic>

__global__ void add(const float* x, float* squares, int* lock, int cols)
{
    const size_t row = blockIdx.x;
    __shared__ float other;
    float s = 0.0f;
    for (int c = blockIdx.y * 64 + threadIdx.x; c < cols; c += 256) s += x[row * cols + c] * x[row * cols + c];
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    if (threadIdx.x == 32) other = s;
    __syncthreads();
    if (threadIdx.x) return;
    cuda::atomic_ref<int, cuda::thread_scope_device> held(lock[row]);
    while (held.exchange(1, cuda::memory_order_relaxed)) __nanosleep(20);
    squares[row] += s + other;
    held.store(0, cuda::memory_order_relaxed);
}

__global__ void scale(const float* x, const float* weight, const float* squares, float* y, float eps, int cols)
{
    const size_t row = blockIdx.x;
    const float factor = rsqrtf(squares[row] / cols + eps);
    for (int c = threadIdx.x; c < cols; c += 64) y[row * cols + c] = x[row * cols + c] * factor * weight[c];
}
