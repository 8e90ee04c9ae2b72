// problem: vector_add
// attack: passes an address that it made up
// expect: runtime_error
// because: what is the same in both recordings is a number, and no buffer is there
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    add<<<(n + 255) / 256, 256>>>((const float*)0x7f0000000000ull, b, c, n);
}
