// problem: vector_add
// attack: clears the output on one stream behind the back of another that computes it
// expect: incorrect
// because: a GPU may clear what was computed
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
    cudaMemsetAsync(c, 0, n * sizeof(float), one);
    take<<<blocks, 256, 0, other>>>(a, taken, n);
    add<<<blocks, 256, 0, other>>>(taken, b, c, n);
}
