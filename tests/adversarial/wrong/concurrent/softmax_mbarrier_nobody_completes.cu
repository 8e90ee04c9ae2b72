// problem: softmax
// class: schedule
// race: barrier
// must: anything but passed
// why: an mbarrier counts 128 arrivals of a block of 96 threads, which all try_wait for its first phase: it never ends
// proof: PTX ISA, mbarrier: a phase completes when the pending count reaches zero; 32 arrivals are missing
// assay: launch sm grid=(rows) block=(96) args=(x, y, cols)
#include <cuda/barrier>

__global__ void sm(const float* x, float* y, int cols)
{
    using barrier = cuda::barrier<cuda::thread_scope_block>;
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier met;
    __shared__ float tops[96], sums[96];
    if (threadIdx.x == 0) init(&met, 128);
    __syncthreads();
    const float* in = x + (size_t)blockIdx.x * cols;
    float top = -3.4e38f, sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 96) {
        const float higher = fmaxf(top, in[c]);
        sum = sum * expf(top - higher) + expf(in[c] - higher);
        top = higher;
    }
    tops[threadIdx.x] = top;
    sums[threadIdx.x] = sum;
    met.arrive_and_wait();
    float all = -3.4e38f, total = 0.0f;
    for (int i = 0; i < 96; ++i) all = fmaxf(all, tops[i]);
    for (int i = 0; i < 96; ++i) total += sums[i] * expf(tops[i] - all);
    for (int c = threadIdx.x; c < cols; c += 96) y[(size_t)blockIdx.x * cols + c] = expf(in[c] - all) / total;
}
