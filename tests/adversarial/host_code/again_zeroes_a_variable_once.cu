// problem: reduce_sum
// attack: zeroes a variable of the module in its first call alone
// expect: incorrect
// because: the second call adds to the sum of the first
#include <cuda_runtime.h>

__device__ float kept;

__global__ void sum(const float* x, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&kept, x[i]);
}
__global__ void give(float* total) { *total = kept; }

extern "C" void solve(const float* x, float* total, int n)
{
    static bool first = true;
    const float zero = 0.0f;
    if (first) cudaMemcpyToSymbol(kept, &zero, sizeof zero);
    first = false;
    sum<<<8, 128>>>(x, n);
    give<<<1, 1>>>(total);
}
