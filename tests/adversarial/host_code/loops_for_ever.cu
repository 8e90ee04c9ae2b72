// problem: vector_add
// attack: never returns
// expect: timeout
// because: one call has three seconds
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
    for (volatile int i = 0;; i = i + 1) {}
}
