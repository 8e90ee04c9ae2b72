// problem: matvec
// assay: temp ticket uint32 (1)
// assay: temp done int32 (ceil_div(m, 32))
// assay: temp part float32 (m * 4)
// assay: fill ticket value=0
// assay: fill done value=0
// assay: launch mv grid=(ceil_div(m, 32) * 5) block=(128) args=(a, x, y, ticket, done, part, m, k)
// style: dataflow in one launch: tickets in an order in which what is waited for has a smaller one; four parts of 32 rows, then a task that waits for their count
#include <cuda/atomic>

__global__ void mv(const float* a, const float* x, float* y, unsigned* ticket, int* done, float* part, int m, int k)
{
    __shared__ unsigned drawn;
    if (threadIdx.x == 0) drawn = cuda::atomic_ref<unsigned, cuda::thread_scope_device>(*ticket).fetch_add(1, cuda::memory_order_relaxed);
    __syncthreads();
    const int group = drawn / 5, task = drawn % 5, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    cuda::atomic_ref<int, cuda::thread_scope_device> count(done[group]);
    if (task < 4) {
        const int from = (int)((long long)k * task / 4), to = (int)((long long)k * (task + 1) / 4);
        for (int r = warp; r < 32; r += 4) {
            const int row = group * 32 + r;
            if (row >= m) break;
            float s = 0.0f;
            for (int l = from + lane; l < to; l += 32) s += a[(size_t)row * k + l] * x[l];
            for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
            if (lane == 0) part[(size_t)row * 4 + task] = s;
        }
        __syncthreads();
        if (threadIdx.x == 0) count.fetch_add(1, cuda::memory_order_release);
    } else {
        if (threadIdx.x == 0)
            while (count.load(cuda::memory_order_acquire) != 4) __nanosleep(40);
        __syncthreads();
        const int row = group * 32 + threadIdx.x;
        if (threadIdx.x < 32 && row < m) {
            const float* p = part + (size_t)row * 4;
            y[row] = p[0] + p[1] + p[2] + p[3];
        }
    }
}
