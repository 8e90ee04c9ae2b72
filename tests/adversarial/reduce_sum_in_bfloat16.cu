// problem: reduce_sum
// attack: rounds the terms to bfloat16
// expect: incorrect
// because: the probes hold values that differ below this precision
// assay: fill total value=0
// assay: launch sum grid=(ceil_div(n, 256)) block=(256) args=(x, total, n)

#include <cuda_bf16.h>

__global__ void sum(const float* x, float* total, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    float value = i < n ? __bfloat162float(__float2bfloat16(x[i])) : 0.0f;
    for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_down_sync(~0u, value, offset);
    if (threadIdx.x % 32 == 0) atomicAdd(total, value);
}
