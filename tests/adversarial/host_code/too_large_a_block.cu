// problem: vector_add
// attack: launches blocks of 2048 threads
// expect: invalid_submission
// because: no GPU launches such a block
// message: 1 to 1024
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    add<<<(n + 2047) / 2048, 2048>>>(a, b, c, n);
}
