// problem: vector_add
// attack: returns while a non-blocking stream computes the output
// expect: rejected
// because: the caller would read the output too early, and time nothing
// message: nothing makes the caller's stream wait for it
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
    cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    take<<<blocks, 256, 0, side>>>(a, taken, n);
    add<<<blocks, 256, 0, side>>>(taken, b, c, n);
    cudaStreamDestroy(side);
}
