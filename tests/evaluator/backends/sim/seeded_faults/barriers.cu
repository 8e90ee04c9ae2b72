// Barriers that some threads miss, and a copy that nobody waits for: see shared_races.cu for what the comments mean.
#include <cuda_pipeline.h>
#define BOTH(name)                                                      \
    template __global__ void name<false>(const float*, float*, float*); \
    template __global__ void name<true>(const float*, float*, float*);

// seeded: two_barriers deadlock -
template <bool MENDED> __global__ void two_barriers(const float* x, float* y, float* t)
{
    if (threadIdx.x < 32) asm volatile("bar.sync 1;" ::: "memory");  // two_barriers
    else if (MENDED) asm volatile("bar.sync 1;" ::: "memory");
    else asm volatile("bar.sync 2;" ::: "memory");  // two_barriers
    y[blockIdx.x * 64 + threadIdx.x] = x[threadIdx.x];
}
BOTH(two_barriers)

// seeded: lanes_part divergent_barrier -
template <bool MENDED> __global__ void lanes_part(const float* x, float* y, float* t)
{
    __shared__ float part[64];
    part[threadIdx.x] = x[threadIdx.x];
    float mine;
    if (MENDED) {
        __syncthreads();
        mine = part[threadIdx.x ^ 1];
    } else if (threadIdx.x % 2) {
        __syncthreads();  // lanes_part
        mine = part[threadIdx.x - 1] + 1.0f;
    } else {
        __syncthreads();  // lanes_part
        mine = part[threadIdx.x + 1] * 2.0f;
    }
    y[blockIdx.x * 64 + threadIdx.x] = mine;
}
BOTH(lanes_part)

// seeded: too_few_threads deadlock -
template <bool MENDED> __global__ void too_few_threads(const float* x, float* y, float* t)
{
    asm volatile("bar.sync 1, %0;" ::"n"(MENDED ? 64 : 128) : "memory");  // too_few_threads
    y[blockIdx.x * 64 + threadIdx.x] = x[threadIdx.x];
}
BOTH(too_few_threads)

// seeded: copy_not_awaited unawaited_copy stage
template <bool MENDED> __global__ void copy_not_awaited(const float* x, float* y, float* t)
{
    __shared__ float stage[64];
    __pipeline_memcpy_async(&stage[threadIdx.x], &x[threadIdx.x], sizeof(float));  // copy_not_awaited
    __pipeline_commit();
    if (MENDED) __pipeline_wait_prior(0);
    __syncthreads();
    y[blockIdx.x * 64 + threadIdx.x] = stage[63 - threadIdx.x];  // copy_not_awaited
}
BOTH(copy_not_awaited)
