// problem: swiglu
// style: cudaLaunchKernelEx with a configuration
#include <cuda_runtime.h>

__global__ void swiglu(const float* gate, const float* up, float* y, long long count)
{
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
}

extern "C" void solve(const float* gate, const float* up, float* y, int rows, int cols)
{
    long long count = (long long)rows * cols;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)((count + 255) / 256));
    config.blockDim = dim3(256);
    cudaLaunchKernelEx(&config, swiglu, gate, up, y, count);
}
