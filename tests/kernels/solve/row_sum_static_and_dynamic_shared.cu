// problem: row_sum
// style: static and dynamic shared memory: 48 KiB unasked, and as much as the device has where it was asked for
#include <cuda_runtime.h>

__global__ void row_sum(const float* x, float* y, int cols)
{
    __shared__ float kept[10 * 1024];
    extern __shared__ float sums[];
    float sum = 0.0f;
    for (int start = 0; start < cols; start += 10 * 1024) {
        int many = min(10 * 1024, cols - start);
        __syncthreads();
        for (int c = threadIdx.x; c < many; c += blockDim.x) kept[c] = x[(size_t)blockIdx.x * cols + start + c];
        __syncthreads();
        for (int c = threadIdx.x; c < many; c += blockDim.x) sum += kept[many - 1 - c];
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half; half /= 2) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = sums[0];
}

extern "C" void solve(const float* x, float* y, int rows, int cols)
{
    if (rows % 2) {
        row_sum<<<rows, 128, 8 << 10>>>(x, y, cols);
    } else {
        int most;
        cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
        most -= 40 << 10;
        if (cudaFuncSetAttribute(row_sum, cudaFuncAttributeMaxDynamicSharedMemorySize, most + 1) == cudaSuccess) return;
        if (cudaFuncSetAttribute(row_sum, cudaFuncAttributeMaxDynamicSharedMemorySize, most) != cudaSuccess) return;
        row_sum<<<rows, 128, most>>>(x, y, cols);
    }
}
