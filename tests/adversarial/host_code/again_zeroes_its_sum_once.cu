// problem: reduce_sum
// attack: zeroes what it adds to in its first call alone
// expect: incorrect
// because: the second call adds to the sum of the first
#include <cuda_runtime.h>

__global__ void sum(const float* x, float* total, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(total, x[i]);
}

extern "C" void solve(const float* x, float* total, int n)
{
    static float* kept = nullptr;
    if (!kept) {
        cudaMalloc(&kept, sizeof(float));
        cudaMemset(kept, 0, sizeof(float));
    }
    sum<<<8, 128>>>(x, kept, n);
    cudaMemcpy(total, kept, sizeof(float), cudaMemcpyDeviceToDevice);
}
