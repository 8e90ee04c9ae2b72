// problem: reduce_sum
// style: a memset, then atomics
#include <cuda_runtime.h>

__global__ void sum(const float* x, float* total, int n)
{
    float mine = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) mine += x[i];
    for (int offset = 16; offset > 0; offset >>= 1) mine += __shfl_down_sync(0xffffffffu, mine, offset);
    if (threadIdx.x % 32 == 0) atomicAdd(total, mine);
}

extern "C" void solve(const float* x, float* total, int n)
{
    cudaMemset(total, 0, sizeof(float));
    int blocks = (n + 1023) / 1024;
    if (blocks > 256) blocks = 256;
    sum<<<blocks, 256>>>(x, total, n);
    cudaDeviceSynchronize();
}
