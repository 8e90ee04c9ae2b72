// problem: scalar_multiply
// style: cuda::pipeline of the whole block with two stages, a producer and a consumer in every thread
// assay: launch scale grid=(min(ceil_div(n, 128), 8)) block=(128) args=(x, y, alpha, n)

#include <cooperative_groups.h>
#include <cuda/pipeline>

#pragma nv_diag_suppress static_var_with_dynamic_init

__global__ void scale(const float* x, float* y, float alpha, int n)
{
    __shared__ float tiles[2][128];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto block = cooperative_groups::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    const int step = gridDim.x * 128, first = blockIdx.x * 128;
    auto produce = [&](int start, int stage) {
        pipe.producer_acquire();
        int i = start + threadIdx.x;
        if (i < n) cuda::memcpy_async(&tiles[stage][threadIdx.x], x + i, sizeof(float), pipe);
        pipe.producer_commit();
    };
    if (first < n) produce(first, 0);
    for (int start = first, stage = 0; start < n; start += step, stage ^= 1) {
        if (start + step < n) produce(start + step, stage ^ 1);
        pipe.consumer_wait();
        int i = start + 127 - threadIdx.x;
        if (i < n) y[i] = alpha * tiles[stage][127 - threadIdx.x];
        pipe.consumer_release();
    }
}
