// problem: row_sum
// attack: asks for 20 KiB of dynamic shared memory beside 40 static, and takes one byte more
// expect: runtime_error
// because: what was asked for is what there is
// message: asks for 61441 bytes of static and dynamic shared memory
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
    cudaFuncSetAttribute(row_sum, cudaFuncAttributeMaxDynamicSharedMemorySize, 20 << 10);
    row_sum<<<rows, 128, (20 << 10) + 1>>>(x, y, cols);
}
