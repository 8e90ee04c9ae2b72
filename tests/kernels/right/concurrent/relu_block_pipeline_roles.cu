// problem: relu
// assay: launch relu_pipe grid=(min(ceil_div(n, 128), 200)) block=(192) args=(x, y, n)
// style: cuda::pipeline of block scope with producer and consumer roles: two warps bring tiles by memcpy_async, four work
#include <cuda/pipeline>
#include <cooperative_groups.h>

__global__ void relu_pipe(const float* x, float* y, int n)
{
    constexpr int stages = 3;
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
    __shared__ float ring[stages][128];
    const auto block = cooperative_groups::this_thread_block();
    const bool brings = threadIdx.x < 64;
    auto pipe = cuda::make_pipeline(block, &state, brings ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
    const int tiles = (n + 127) / 128;
    int s = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, s = (s + 1) % stages) {
        const int at = tile * 128;
        if (brings) {
            pipe.producer_acquire();
            for (int e = threadIdx.x; e < 128; e += 64)
                if (at + e < n) cuda::memcpy_async(&ring[s][e], x + at + e, sizeof(float), pipe);
            pipe.producer_commit();
        } else {
            pipe.consumer_wait();
            const int e = threadIdx.x - 64;
            if (at + e < n) y[at + e] = fmaxf(ring[s][e], 0.0f);
            pipe.consumer_release();
        }
    }
}
