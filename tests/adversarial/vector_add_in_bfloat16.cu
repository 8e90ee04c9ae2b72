// problem: vector_add
// attack: rounds the sum to bfloat16
// expect: incorrect
// because: the probes hold values that differ below this precision

#include <cuda_bf16.h>

__global__ void low_precision(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        c[i] = __bfloat162float(__float2bfloat16(a[i] + b[i]));
    }
}
