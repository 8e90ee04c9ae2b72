// problem: saxpy
// attack: takes memory that was given back on one stream, and writes it on another, which does not wait for that one
// expect: runtime_error
// because: it may be the memory that the first stream is still reading
// message: no event and no wait orders
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
    cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    float *half, *more;
    cudaMallocAsync(&half, n * sizeof(float), one);
    scale<<<blocks, 256, 0, one>>>(x, half, alpha, n);
    add<<<blocks, 256, 0, one>>>(half, y, result, n);
    cudaFreeAsync(half, one);
    cudaMallocAsync(&more, n * sizeof(float), one);
    scale<<<blocks, 256, 0, other>>>(y, more, 0.0f, n);
    cudaStreamSynchronize(other);
    cudaFreeAsync(more, one);
    cudaDeviceSynchronize();
}
