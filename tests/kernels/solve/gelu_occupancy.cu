// problem: gelu
// style: block and grid from the occupancy calculator
#include <cuda_runtime.h>
#include <algorithm>

__global__ void gelu(const float* x, float* y, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float v = x[i];
        y[i] = 0.5f * v * (1.0f + erff(v * 0.70710678118654752f));
    }
}

extern "C" void solve(const float* x, float* y, int n)
{
    int grid = 0, block = 0, at_once = 0, multiprocessors = 0;
    cudaOccupancyMaxPotentialBlockSize(&grid, &block, gelu, 0, 0);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&at_once, gelu, block, 0);
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
    gelu<<<std::min((n + block - 1) / block, at_once * multiprocessors), block>>>(x, y, n);
}
