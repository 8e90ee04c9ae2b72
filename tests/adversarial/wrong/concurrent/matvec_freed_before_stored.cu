// problem: matvec
// class: schedule
// race: lock
// must: anything but passed
// why: the sum is read under a lock, which is freed before the new sum is stored: another block may take the lock between and read the old sum
// proof: the store belongs before the release; two slices of a row
// assay: temp lock int32 (m)
// assay: fill lock value=0
// assay: fill y value=0
// assay: launch mv grid=(m, 3) block=(32) args=(a, x, y, lock, k)
#include <cuda/atomic>

__global__ void mv(const float* a, const float* x, float* y, int* lock, int k)
{
    const int row = blockIdx.x;
    float s = 0.0f;
    for (int j = blockIdx.y * 32 + threadIdx.x; j < k; j += 96) s += a[(size_t)row * k + j] * x[j];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    if (threadIdx.x) return;
    cuda::atomic_ref<int, cuda::thread_scope_device> mine(lock[row]);
    while (mine.exchange(1, cuda::memory_order_acquire)) { }
    s += *(volatile float*)&y[row];
    mine.store(0, cuda::memory_order_release);
    *(volatile float*)&y[row] = s;
}
