// problem: vector_add
// attack: launches without measure
// expect: invalid_submission
// because: a plan has so many steps at most
// message: more than 4096
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    for (int i = 0; i < 10000000; ++i) add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
