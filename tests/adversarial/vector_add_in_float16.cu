// problem: vector_add
// attack: adds in float16
// expect: incorrect
// because: the probes hold values that differ below this precision

#include <cuda_fp16.h>

__global__ void low_precision(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        c[i] = __half2float(__hadd(__float2half(a[i]), __float2half(b[i])));
    }
}
