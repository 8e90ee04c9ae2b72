// problem: saxpy
// attack: gives memory back on one stream while a kernel on another still reads it
// expect: runtime_error
// because: what is allocated next may be that memory, and nothing orders the two kernels
// message: may still use
#include <cuda_runtime.h>

__global__ void scale(const float* x, float* scaled, float alpha, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) scaled[i] = alpha * x[i];
}
__global__ void add(const float* scaled, const float* y, float* result, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) result[i] = scaled[i] + y[i];
}

extern "C" void solve(const float* x, const float* y, float* result, float alpha, int n)
{
    const int blocks = (n + 255) / 256;
    cudaStream_t one, other;
    cudaEvent_t scaled;
    cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaEventCreate(&scaled);
    float *half, *more;
    cudaMallocAsync(&half, n * sizeof(float), one);
    scale<<<blocks, 256, 0, one>>>(x, half, alpha, n);
    cudaEventRecord(scaled, one);
    cudaStreamWaitEvent(other, scaled);
    add<<<blocks, 256, 0, other>>>(half, y, result, n);
    cudaFreeAsync(half, one);  // `other` may not have come to read it
    cudaMallocAsync(&more, n * sizeof(float), one);
    scale<<<blocks, 256, 0, one>>>(y, more, 0.0f, n);
    cudaFreeAsync(more, one);
    cudaDeviceSynchronize();
}
