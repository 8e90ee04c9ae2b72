// problem: vector_add
// attack: launches on a stream that was destroyed
// expect: runtime_error
// because: a GPU does not launch it
// message: a stream that was never created, or that was destroyed
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
    cudaStream_t side;
    cudaStreamCreate(&side);
    cudaStreamDestroy(side);
    take<<<blocks, 256, 0, side>>>(a, taken, n);
    add<<<blocks, 256, 0, side>>>(taken, b, c, n);
}
