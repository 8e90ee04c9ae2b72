// problem: row_sum
// class: schedule
// race: lock
// must: anything but passed
// why: blocks hand rows over through one slot under an 8-bit epoch; the producer does not wait for the consumer, which takes the slot as soon as the epoch differs from the last it has seen, so rows are skipped or doubled when the producer is faster
// proof: nothing holds the producer back: two epochs may pass between two looks, and 256 passed look like none
// assay: temp slot float32 (1)
// assay: temp epoch uint32 (1)
// assay: fill epoch value=0
// assay: launch rs grid=(2) block=(128) cooperative args=(x, y, slot, epoch, rows, cols)
#include <cuda/atomic>

__global__ void rs(const float* x, float* y, float* slot, unsigned* epoch, int rows, int cols)
{
    __shared__ float parts[4];
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> now(*epoch);
    cuda::atomic_ref<float, cuda::thread_scope_device> value(*slot);
    if (blockIdx.x) {
        if (threadIdx.x) return;
        for (int row = 0; row < rows; ++row) {
            for (int looks = 0; now.load(cuda::memory_order_acquire) % 256 == row % 256 && looks < 100000; ++looks) { }
            y[row] = value.load(cuda::memory_order_relaxed);
        }
        return;
    }
    for (int row = 0; row < rows; ++row) {
        float s = 0.0f;
        for (int c = threadIdx.x; c < cols; c += 128) s += x[(size_t)row * cols + c];
        for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
        if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = s;
        __syncthreads();
        if (threadIdx.x == 0) {
            value.store(parts[0] + parts[1] + parts[2] + parts[3], cuda::memory_order_relaxed);
            now.fetch_add(1, cuda::memory_order_release);
        }
        __syncthreads();
    }
}
