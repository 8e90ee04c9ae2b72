// problem: gelu
// style: as many blocks as the device has multiprocessors
#include <cuda_runtime.h>

__global__ void gelu(const float* __restrict__ x, float* __restrict__ y, int n)
{
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        float v = x[i];
        y[i] = 0.5f * v * (1.0f + erff(v * 0.70710678118654752f));
    }
}

extern "C" void solve(const float* x, float* y, int n)
{
    int device = 0;
    cudaGetDevice(&device);
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) return;
    int blocks = properties.multiProcessorCount * (properties.maxThreadsPerMultiProcessor / 256);
    gelu<<<blocks, 256>>>(x, y, n);
}
