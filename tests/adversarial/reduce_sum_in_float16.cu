// problem: reduce_sum
// attack: adds up in float16
// expect: incorrect
// because: the probes hold values that differ below this precision
// assay: launch sum grid=(1) block=(32) args=(x, total, n)

#include <cuda_fp16.h>

__global__ void sum(const float* x, float* total, int n)
{
    __half mine = __float2half(0.0f);
    for (int i = threadIdx.x; i < n; i += 32) mine = __hadd(mine, __float2half(x[i]));
    for (int offset = 16; offset > 0; offset >>= 1) mine = __hadd(mine, __shfl_down_sync(~0u, mine, offset));
    if (threadIdx.x == 0) *total = __half2float(mine);
}
