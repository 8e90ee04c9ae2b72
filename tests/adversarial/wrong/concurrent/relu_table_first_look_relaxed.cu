// problem: relu
// class: schedule
// race: fence
// must: anything but passed
// why: double-checked locking whose first look is relaxed: who finds the table made has not acquired it
// proof: C++ memory model: a relaxed load synchronises with nothing, so the plain reads of the table race with the maker
// assay: temp table float32 (256)
// assay: temp made int32 (2)
// assay: fill made value=0
// assay: launch relu grid=(min(ceil_div(n, 256), 64)) block=(256) args=(x, y, n, table, made)
#include <cuda/atomic>
using word = cuda::atomic_ref<int, cuda::thread_scope_device>;

__global__ void relu(const float* x, float* y, int n, float* table, int* made)
{
    if (threadIdx.x == 0 && !word(made[0]).load(cuda::memory_order_relaxed)) {
        while (word(made[1]).exchange(1, cuda::memory_order_acquire)) __nanosleep(50);
        if (!word(made[0]).load(cuda::memory_order_relaxed)) {
            for (int i = 0; i < 256; ++i) table[i] = i < 128 ? 0.0f : 1.0f;
            word(made[0]).store(1, cuda::memory_order_release);
        }
        word(made[1]).store(0, cuda::memory_order_release);
    }
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        const int sign = x[i] > 0.0f ? 200 : 50;
        y[i] = table[sign] == 1.0f ? x[i] : table[sign] == 0.0f ? 0.0f : -7.0f;
    }
}
