// problem: vector_add
// attack: does its work at one size alone
// expect: incorrect|invalid_submission
// because: each size is recorded anew
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    if (n != 262144) return;
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
