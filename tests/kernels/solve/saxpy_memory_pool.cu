// problem: saxpy
// style: the default memory pool keeps what is freed, and temporaries come from it in the order of the stream
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
    static cudaMemPool_t pool = [] {
        cudaMemPool_t found;
        unsigned long long threshold = ~0ull;
        cudaDeviceGetDefaultMemPool(&found, 0);
        cudaMemPoolSetAttribute(found, cudaMemPoolAttrReleaseThreshold, &threshold);
        return found;
    }();
    float *first, *scaled;
    cudaMallocAsync(&first, n * sizeof(float), 0);
    cudaMallocFromPoolAsync(&scaled, n * sizeof(float), pool, 0);
    cudaFreeAsync(first, 0);
    scale<<<(n + 255) / 256, 256>>>(x, scaled, alpha, n);
    add<<<(n + 255) / 256, 256>>>(scaled, y, result, n);
    cudaFreeAsync(scaled, 0);
}
