// problem: vector_add
// attack: copies on one stream and adds on another, which waits for nothing
// expect: incorrect
// because: a GPU may add before it has copied
// message: no event and no wait orders them
#include <cuda_runtime.h>

__global__ void take(const float* a, float* taken, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) taken[i] = a[i];
}
__global__ void add(const float* taken, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = taken[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    const int blocks = (n + 255) / 256;
    float* taken;
    cudaMalloc(&taken, n * sizeof(float));
    cudaStream_t one, other;
    cudaStreamCreate(&one);
    cudaStreamCreate(&other);
    take<<<blocks, 256, 0, one>>>(a, taken, n);
    add<<<blocks, 256, 0, other>>>(taken, b, c, n);
    cudaDeviceSynchronize();
}
