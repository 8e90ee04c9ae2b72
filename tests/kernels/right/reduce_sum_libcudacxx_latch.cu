// problem: reduce_sum
// assay: temp partial float32 (64)
// assay: launch phase1 grid=(64) block=(128) args=(x, partial, n)
// assay: launch phase2 grid=(1) block=(64) args=(partial, total)
// style: libcu++ in shared memory: a cuda::atomic of block scope sums up, a cuda::latch lets thread 0 wait for all
#include <cuda/atomic>
#include <cuda/latch>
#include <cuda/std/span>

__device__ float sum_span(cuda::std::span<const float> all, int first, int step)
{
    float s = 0.0f;
    for (size_t i = first; i < all.size(); i += step) s += all[i];
    return s;
}

__device__ void block_sum(float v, float* to)
{
    __shared__ cuda::atomic<float, cuda::thread_scope_block> sum;
    __shared__ cuda::latch<cuda::thread_scope_block>* done;
    __shared__ alignas(cuda::latch<cuda::thread_scope_block>) unsigned char room[sizeof(cuda::latch<cuda::thread_scope_block>)];
    if (threadIdx.x == 0) {
        new (&sum) cuda::atomic<float, cuda::thread_scope_block>(0.0f);
        done = new (room) cuda::latch<cuda::thread_scope_block>(blockDim.x);
    }
    __syncthreads();
    sum.fetch_add(v, cuda::memory_order_relaxed);
    done->count_down();
    if (threadIdx.x == 0) {
        done->wait();
        *to = sum.load(cuda::memory_order_relaxed);
    }
}

__global__ void phase1(const float* x, float* partial, int n)
{
    block_sum(sum_span({x, (size_t)n}, blockIdx.x * 128 + threadIdx.x, gridDim.x * 128), partial + blockIdx.x);
}

__global__ void phase2(const float* partial, float* total) { block_sum(partial[threadIdx.x], total); }
