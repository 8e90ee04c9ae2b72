// problem: prefix_sum
// assay: temp ticket uint32 (1)
// assay: temp state uint32 (ceil_div(n, 512))
// assay: temp value float32 (ceil_div(n, 512) * 2)
// assay: fill ticket value=0
// assay: fill state value=0
// assay: launch look_back grid=(ceil_div(n, 512)) block=(128) args=(x, y, ticket, state, value, n)
// style: look-back with cuda::atomic_ref: state by store(release) and load(acquire), aggregate and prefix in words of their own
#include <cuda/atomic>
using flag = cuda::atomic_ref<unsigned, cuda::thread_scope_device>;

__global__ void look_back(const float* x, float* y, unsigned* ticket, unsigned* state, float* value, int n)
{
    __shared__ unsigned tile;
    __shared__ float ends[128], before;
    if (threadIdx.x == 0) tile = flag(*ticket).fetch_add(1, cuda::memory_order_relaxed);
    __syncthreads();
    const int t = tile, at = t * 512 + threadIdx.x * 4;
    float v[4], run = 0.0f;
    for (int k = 0; k < 4; ++k) v[k] = run += at + k < n ? x[at + k] : 0.0f;
    ends[threadIdx.x] = run;
    __syncthreads();
    for (int d = 1; d < 128; d <<= 1) {
        const float left = threadIdx.x >= d ? ends[threadIdx.x - d] : 0.0f;
        __syncthreads();
        ends[threadIdx.x] += left;
        __syncthreads();
    }
    if (threadIdx.x == 127) {
        const float mine = ends[127];
        float sum = 0.0f;
        if (t) {
            value[2 * t] = mine;
            flag(state[t]).store(1, cuda::memory_order_release);
            for (int other = t - 1;; --other) {
                unsigned s;
                while ((s = flag(state[other]).load(cuda::memory_order_acquire)) == 0) __nanosleep(16);
                sum += value[2 * other + (s == 2)];
                if (s == 2) break;
            }
        }
        value[2 * t + 1] = sum + mine;
        flag(state[t]).store(2, cuda::memory_order_release);
        before = sum;
    }
    __syncthreads();
    const float left = before + (threadIdx.x ? ends[threadIdx.x - 1] : 0.0f);
    for (int k = 0; k < 4; ++k)
        if (at + k < n) y[at + k] = left + v[k];
}
